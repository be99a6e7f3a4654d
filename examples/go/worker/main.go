// Command worker wants to give a refund and waits for somebody's approval. Killed and run again, it is the same wait, and nobody is
// asked twice.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	v1 "example.com/abeyance/abeyancev1"
	"example.com/abeyance/reattach"
	"google.golang.org/protobuf/types/known/durationpb"
)

// handingOn is how long the resolver may take to be there.
const handingOn = 30 * time.Second

func main() {
	broker := flag.String("server", cmp.Or(os.Getenv("ABEYANCE_SERVER"), "http://127.0.0.1:2239"), "the broker, `URL`")
	resolver := flag.String("resolver", cmp.Or(os.Getenv("RESOLVER_URL"), "http://127.0.0.1:8080"), "who decides, `URL`")
	order := flag.Int64("order", 1234, "the order, which is the key of the wait")
	amount := flag.Int64("amount", 80, "the amount to give back")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	text, err := refund(ctx, strings.TrimPrefix(*broker, "http://"), *resolver, *order, *amount)
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	fmt.Println(text)
}

// refund asks for an approval, waits for it, and says what the worker goes on with.
func refund(ctx context.Context, broker, resolver string, order, amount int64) (string, error) {
	client, err := reattach.NewClient(broker)
	if err != nil {
		return "", err
	}
	defer client.Close()
	call := &v1.DeferredToolCall{
		ToolCallId: "call_1",
		ToolName:   "issue_refund",
		ArgsJson:   fmt.Sprintf(`{"order": %d, "amount": %d}`, order, amount),
		Kind:       v1.DeferredToolCall_KIND_APPROVAL,
	}
	spec := &v1.WaitSpec{
		Name:     "refund",
		Key:      fmt.Sprintf("refund-%d", order),
		Expiry:   &v1.WaitSpec_Timeout{Timeout: durationpb.New(24 * time.Hour)},
		Question: &v1.Question{Kind: &v1.Question_Deferred{Deferred: &v1.DeferredToolRequests{Calls: []*v1.DeferredToolCall{call}}}},
	}
	outcome, err := client.WaitFor(ctx, spec, func(ctx context.Context, wait *reattach.Wait) error {
		return handOn(ctx, resolver, wait.Token())
	})
	if err != nil {
		return "", err
	}
	// Also of a wait that failed, expired or was cancelled: then it is a denial that says so. What is neither is no approval.
	switch decision := outcome.GetResults().GetApprovals()[call.GetToolCallId()].GetDecision().(type) {
	case *v1.ToolApproval_Approved:
		args := cmp.Or(decision.Approved.GetOverrideArgsJson(), call.GetArgsJson())
		return "approved: " + args, nil
	case *v1.ToolApproval_Denied:
		return "denied: " + cmp.Or(decision.Denied.GetMessage(), "The tool call was denied."), nil
	}
	return "", errors.New("the outcome decides nothing")
}

// handOn gives the token to the resolver. It is repeated while that cannot be reached: the same token twice does no harm there.
func handOn(ctx context.Context, resolver string, token reattach.Token) error {
	ctx, cancel := context.WithTimeout(ctx, handingOn)
	defer cancel()
	body, err := json.Marshal(map[string]string{"token": token.Expose()})
	if err != nil {
		return err
	}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, resolver+"/waits", bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
			switch {
			case response.StatusCode == http.StatusOK:
				return nil
			case response.StatusCode < http.StatusInternalServerError:
				return fmt.Errorf("the resolver refuses the token: %s", response.Status)
			}
			err = errors.New(response.Status)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("the resolver cannot be reached: %w", err)
		}
	}
}
