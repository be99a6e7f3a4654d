package reattach_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "example.com/abeyance/abeyancev1"
	"example.com/abeyance/internal/testbroker"
	"example.com/abeyance/reattach"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
)

func connect(t *testing.T, addr string) *reattach.Client {
	t.Helper()
	client, err := reattach.NewClient(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func spec(name, key string) *v1.WaitSpec {
	timeout := &v1.WaitSpec_Timeout{Timeout: durationpb.New(time.Hour)}
	return &v1.WaitSpec{Name: name, Key: key, Expiry: timeout}
}

func open(t *testing.T, client *reattach.Client) *reattach.Wait {
	t.Helper()
	wait, err := client.Open(t.Context(), spec("n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return wait
}

func resolve(ctx context.Context, client *reattach.Client, token reattach.Token, payload string) error {
	_, err := v1.NewResolveServiceClient(client).Resolve(ctx, &v1.ResolveRequest{
		Token:  token.Expose(),
		Answer: &v1.ResolveRequest_PayloadJson{PayloadJson: payload},
	})
	return err
}

// answered resolves a wait with a client that nothing disturbs, and makes sure that the worker gets the answer within a time.
func answered(t *testing.T, resolver *reattach.Client, wait *reattach.Wait, payload string, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := resolve(ctx, resolver, wait.Token(), payload); err != nil {
		t.Fatal(err)
	}
	outcome, err := wait.Outcome(ctx)
	if err != nil {
		t.Fatalf("no outcome within %v: %v", within, err)
	}
	if got := outcome.GetResolved().GetPayloadJson(); got != payload {
		t.Fatalf("the answer is %q instead of %q", got, payload)
	}
}

func TestC06AFrozenConnectionIsLeft(t *testing.T) {
	t.Parallel()
	broker := testbroker.Start(t)
	proxy := broker.Proxy()
	wait := open(t, connect(t, proxy.Addr))
	proxy.Command("freeze")
	// Twice the period of signs of life, the longest first delay, and time for a busy machine.
	answered(t, connect(t, broker.Addr), wait, "1", 2*time.Second+250*time.Millisecond+2*time.Second)
	if wait.Reattached() != 1 {
		t.Fatalf("attached again %d times", wait.Reattached())
	}
}

func TestC12AServerThatScoldsIsLeftAlone(t *testing.T) {
	t.Parallel()
	broker := testbroker.Start(t)
	proxy := broker.Proxy("--scold-after", "2")
	client := connect(t, proxy.Addr)
	var log buffer
	client.Log = slog.New(slog.NewTextHandler(&log, nil))
	wait := open(t, client)
	proxy.Await("scolded", 2)
	proxy.Command("calm")
	// Full jitter of up to 16 s, for the third try.
	answered(t, connect(t, broker.Addr), wait, "1", 18*time.Second)
	if warnings := log.String(); strings.Count(warnings, "level=WARN") != 1 || !strings.Contains(warnings, "too_many_pings") {
		t.Fatalf("the cause is told as %q", warnings)
	}
	if n := proxy.Count("connection"); n > 3 || wait.Reattached() > 2 {
		t.Fatalf("%d connections, attached again %d times", n, wait.Reattached())
	}
}

func TestACutIsNeverAnAnswer(t *testing.T) {
	t.Parallel()
	broker := testbroker.Start(t)
	proxy := broker.Proxy()
	wait := open(t, connect(t, proxy.Addr))
	for n := 1; n <= 3; n++ {
		proxy.Command("cut")
		proxy.Await("connection", n+1)
		still, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if outcome, err := wait.Outcome(still); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a cut was taken for %v, %v", outcome, err)
		}
		cancel()
	}
	answered(t, connect(t, broker.Addr), wait, "null", 5*time.Second)
}

func TestABrokerThatIsKilledKeepsTheWait(t *testing.T) {
	t.Parallel()
	broker := testbroker.Start(t)
	client := connect(t, broker.Addr)
	followed, keyed := open(t, client), spec("n", "k")
	first, err := client.Open(t.Context(), keyed)
	if err != nil {
		t.Fatal(err)
	}
	broker.Kill()
	resolving := make(chan error, 1)
	// Begun while there is no broker: it is repeated until there is one.
	go func() { resolving <- resolve(t.Context(), client, followed.Token(), "1") }()
	broker.Restart()
	if err := <-resolving; err != nil {
		t.Fatal(err)
	}
	answered(t, client, followed, "1", 5*time.Second)
	again, err := client.Open(t.Context(), keyed)
	if err != nil {
		t.Fatal(err)
	}
	if again.Token().Expose() != first.Token().Expose() || !again.Opened().GetResumed() {
		t.Fatal("the key gives another wait after a restart")
	}
	answered(t, client, again, "2", 5*time.Second)
	attached, err := client.Attach(t.Context(), first.Token())
	if err != nil {
		t.Fatal(err)
	}
	answered(t, client, attached, "2", 5*time.Second)
}

func TestC16AWaitOfSixtyDays(t *testing.T) {
	t.Parallel()
	client := connect(t, testbroker.Start(t).Addr)
	long := spec("n", "")
	long.Expiry = &v1.WaitSpec_Timeout{Timeout: durationpb.New(60 * 24 * time.Hour)}
	wait, err := client.Open(t.Context(), long)
	if err != nil {
		t.Fatal(err)
	}
	request := &v1.DescribeWaitRequest{Token: wait.Token().Expose()}
	record, err := v1.NewResolveServiceClient(client).DescribeWait(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if got := record.GetWait(); got.GetTimeout().AsDuration() != 60*24*time.Hour || got.GetTimeoutSource() != v1.TimeoutSource_TIMEOUT_SOURCE_TIMEOUT {
		t.Fatalf("the record says %v by %v", got.GetTimeout(), got.GetTimeoutSource())
	}

	// Without a timeout the deadline of the stream must not become one.
	wait, err = client.Open(t.Context(), &v1.WaitSpec{Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	if got := wait.Opened().GetTimeoutSource(); got != v1.TimeoutSource_TIMEOUT_SOURCE_SERVER_MAXIMUM {
		t.Fatalf("the timeout came from %v", got)
	}
}

func TestC64AnswersStayAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	client := connect(t, testbroker.Start(t).Addr)
	for _, payload := range []string{
		"9007199254740993", "9223372036854775807", "12345678901234567890123", "1.10", "1e2", " [ 1 ]\n", `"😀 \u00e9 é"`, "null",
		`"` + strings.Repeat("x", 1<<20-2) + `"`,
	} {
		answered(t, client, open(t, client), payload, 10*time.Second)
	}
}

func TestARefusalNamesAllItsFaults(t *testing.T) {
	t.Parallel()
	client := connect(t, testbroker.Start(t).Addr)
	calls := make([]*v1.DeferredToolCall, 64)
	results := map[string]map[string]string{"approvals": {}}
	for i := range calls {
		id := fmt.Sprintf("call_%d_%s", i, strings.Repeat("x", 100))
		calls[i] = &v1.DeferredToolCall{ToolCallId: id, ToolName: "t", Kind: v1.DeferredToolCall_KIND_APPROVAL}
		results["approvals"][id] = "yes"
	}
	asking := spec("n", "")
	asking.Question = &v1.Question{Kind: &v1.Question_Deferred{Deferred: &v1.DeferredToolRequests{Calls: calls}}}
	wait, err := client.Open(t.Context(), asking)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := json.Marshal(results)
	if err != nil {
		t.Fatal(err)
	}
	err = resolve(t.Context(), client, wait.Token(), string(answer))
	var refusal *reattach.Refusal
	if !errors.As(err, &refusal) || refusal.Code != codes.InvalidArgument || refusal.Reason != "INVALID_ANSWER" || !refusal.IsVerdict() {
		t.Fatalf("%v", err)
	}
	if n := len(refusal.Violations); n < 10 || !strings.HasPrefix(refusal.Violations[0].Field, `approvals["call_0_`) {
		t.Fatalf("%d faults: %v", n, refusal.Violations)
	}
	if last := refusal.Violations[len(refusal.Violations)-1]; !strings.Contains(last.Description, "more") {
		t.Fatalf("the last fault is %v", last)
	}
	if refusal.Metadata["wait_id"] != wait.ID() {
		t.Fatalf("the refusal is about %v", refusal.Metadata)
	}
}

func TestATokenIsNeverShown(t *testing.T) {
	t.Parallel()
	client := connect(t, testbroker.Start(t).Addr)
	var log buffer
	client.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	wait := open(t, client)
	secret := strings.TrimPrefix(wait.Token().Expose(), "abey_")
	holder := struct {
		Token  reattach.Token
		hidden reattach.Token
		wait   *reattach.Wait
	}{wait.Token(), wait.Token(), wait}
	shown := ""
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		shown += fmt.Sprintf(strings.Repeat(verb+"\n", 5), wait.Token(), holder, &holder, wait, wait.Opened())
	}
	for _, value := range []any{wait.Token(), holder} {
		text, err := json.Marshal(value)
		if err != nil {
			continue
		}
		shown += string(text)
	}
	var lines buffer
	slog.New(slog.NewJSONHandler(&lines, nil)).Info("line", "token", wait.Token(), "wait", wait)
	slog.New(slog.NewTextHandler(&lines, nil)).Info("line", "token", wait.Token(), "wait", wait)
	shown += lines.String()
	broken := reattach.NewToken(wait.Token().Expose() + "x")
	_, err := client.Attach(t.Context(), broken)
	shown += fmt.Sprintf("%v %+v %#v", err, err, err)
	answered(t, client, wait, "1", 5*time.Second)
	shown += log.String()
	for _, form := range []string{secret, fmt.Sprintf("%x", secret)} {
		if strings.Contains(shown, form) {
			t.Fatalf("a token is shown in %s", shown)
		}
	}
	if !strings.Contains(shown, "abey_(hidden)") {
		t.Fatal("nothing was shown at all")
	}
}

// buffer is a buffer that many may write to.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
