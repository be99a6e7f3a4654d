package reattach_test

import (
	"context"
	"errors"
	"testing"
	"time"

	v1 "example.com/abeyance/abeyancev1"
	"example.com/abeyance/internal/testbroker"
	"example.com/abeyance/reattach"
)

// handOn is an ask that hands tokens on to a channel.
func handOn(tokens chan<- reattach.Token) func(context.Context, *reattach.Wait) error {
	return func(_ context.Context, wait *reattach.Wait) error {
		tokens <- wait.Token()
		return nil
	}
}

func describe(t *testing.T, client *reattach.Client, token reattach.Token) *v1.Wait {
	t.Helper()
	response, err := v1.NewResolveServiceClient(client).DescribeWait(t.Context(), &v1.DescribeWaitRequest{Token: token.Expose()})
	if err != nil {
		t.Fatal(err)
	}
	return response.GetWait()
}

// noAsk is an ask that must not be called.
func noAsk(context.Context, *reattach.Wait) error { return errors.New("asked twice") }

func TestAWorkerAsksOnce(t *testing.T) {
	t.Parallel()
	client := connect(t, testbroker.Start(t).Addr)

	// A worker that dies after its ask leaves the wait asked: the next one only waits.
	dying, die := context.WithCancel(t.Context())
	tokens, died := make(chan reattach.Token, 1), make(chan error, 1)
	go func() {
		_, err := client.WaitFor(dying, spec("n", "k"), handOn(tokens))
		died <- err
	}()
	token := <-tokens
	for describe(t, client, token).GetAskTime() == nil {
		time.Sleep(time.Millisecond)
	}
	die()
	if err := <-died; !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	ended := make(chan error, 1)
	go func() {
		outcome, err := client.WaitFor(t.Context(), spec("n", "k"), noAsk)
		if err == nil && outcome.GetResolved().GetPayloadJson() != "1" {
			err = errors.New(outcome.String())
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("ended before it was answered: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := resolve(t.Context(), client, token, "1"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}

	// Nobody is asked about a wait that was settled before it was asked.
	wait, err := client.Open(t.Context(), spec("n", "settled"))
	if err != nil {
		t.Fatal(err)
	}
	answered(t, client, wait, "2", 5*time.Second)
	outcome, err := client.WaitFor(t.Context(), spec("n", "settled"), noAsk)
	if err != nil || outcome.GetResolved().GetPayloadJson() != "2" {
		t.Fatalf("%v, %v", outcome, err)
	}
}

func TestAnOutcomeCutsTheAskShort(t *testing.T) {
	t.Parallel()
	client := connect(t, testbroker.Start(t).Addr)
	outcome, err := client.WaitFor(t.Context(), spec("n", ""), func(ctx context.Context, wait *reattach.Wait) error {
		if err := resolve(t.Context(), client, wait.Token(), "1"); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil || outcome.GetResolved().GetPayloadJson() != "1" {
		t.Fatalf("%v, %v", outcome, err)
	}
}

func TestAnAskThatKnowsTheAnswerMayBeLate(t *testing.T) {
	t.Parallel()
	client := connect(t, testbroker.Start(t).Addr)
	outcome, err := client.WaitFor(t.Context(), spec("n", ""), func(_ context.Context, wait *reattach.Wait) error {
		if err := resolve(t.Context(), client, wait.Token(), `"the first"`); err != nil {
			return err
		}
		return resolve(t.Context(), client, wait.Token(), `"mine"`)
	})
	if err != nil || outcome.GetResolved().GetPayloadJson() != `"the first"` {
		t.Fatalf("%v, %v", outcome, err)
	}
}

func TestAnAskThatFails(t *testing.T) {
	t.Parallel()
	client := connect(t, testbroker.Start(t).Addr)
	failure := errors.New("the mail bounced")
	for _, key := range []string{"", "k"} {
		var token reattach.Token
		_, err := client.WaitFor(t.Context(), spec("n", key), func(_ context.Context, wait *reattach.Wait) error {
			token = wait.Token()
			return failure
		})
		var ask *reattach.AskError
		if !errors.As(err, &ask) || !errors.Is(err, failure) {
			t.Fatalf("%v", err)
		}
		record := describe(t, client, token)
		want := v1.Wait_STATE_CANCELLED
		if key != "" {
			want = v1.Wait_STATE_PENDING
		}
		if record.GetState() != want || record.GetAskTime() != nil {
			t.Fatalf("with the key %q the wait is %v, asked at %v", key, record.GetState(), record.GetAskTime())
		}
	}

	// Running again asks again, with the same token.
	tokens, resolved := make(chan reattach.Token, 1), make(chan error, 1)
	go func() { resolved <- resolve(t.Context(), client, <-tokens, "1") }()
	outcome, err := client.WaitFor(t.Context(), spec("n", "k"), handOn(tokens))
	if err := <-resolved; err != nil {
		t.Fatal(err)
	}
	if err != nil || outcome.GetResolved().GetPayloadJson() != "1" {
		t.Fatalf("%v, %v", outcome, err)
	}
}

func TestAWorkerThatIsCancelled(t *testing.T) {
	t.Parallel()
	client := connect(t, testbroker.Start(t).Addr)
	for key, want := range map[string]v1.Wait_State{"": v1.Wait_STATE_CANCELLED, "k": v1.Wait_STATE_PENDING} {
		ctx, cancel := context.WithCancel(t.Context())
		tokens, ended := make(chan reattach.Token, 1), make(chan error, 1)
		go func() {
			_, err := client.WaitFor(ctx, spec("n", key), func(ctx context.Context, wait *reattach.Wait) error {
				tokens <- wait.Token()
				<-ctx.Done()
				return ctx.Err()
			})
			ended <- err
		}()
		token := <-tokens
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || errors.As(err, new(*reattach.AskError)) {
			t.Fatalf("%v", err)
		}
		if got := describe(t, client, token).GetState(); got != want {
			t.Fatalf("with the key %q the wait is %v", key, got)
		}
	}
}

func TestEndsWithoutAnAnswerAreOutcomes(t *testing.T) {
	t.Parallel()
	client := connect(t, testbroker.Start(t).Addr)
	wait := open(t, client)
	request := &v1.FailRequest{Token: wait.Token().Expose(), Reason: "no", ErrorType: "T", DetailsJson: "1.0"}
	if _, err := v1.NewResolveServiceClient(client).Fail(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	outcome, err := wait.Outcome(t.Context())
	failed := outcome.GetFailed()
	if err != nil || failed.GetReason() != "no" || failed.GetErrorType() != "T" || failed.GetDetailsJson() != "1.0" {
		t.Fatalf("%v, %v", outcome, err)
	}

	short := spec("n", "")
	short.GetTimeout().Seconds, short.GetTimeout().Nanos = 0, 50_000_000
	if wait, err = client.Open(t.Context(), short); err != nil {
		t.Fatal(err)
	}
	outcome, err = wait.Outcome(t.Context())
	if err != nil || outcome.GetExpired().GetReason() != "No resolution arrived within 0:00:00.050000." {
		t.Fatalf("%v, %v", outcome, err)
	}
}
