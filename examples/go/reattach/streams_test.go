package reattach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "example.com/abeyance/abeyancev1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestEveryEndWithoutOutcomeMeansAttachAgain(t *testing.T) {
	for _, code := range []codes.Code{
		codes.OK, codes.Unavailable, codes.Internal, codes.Unknown, codes.Canceled, codes.ResourceExhausted, codes.DeadlineExceeded,
		codes.Aborted,
	} {
		t.Run(code.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fake) {
				wait, s := f.wait(t)
				s.end(status.Error(code, "cut"))
				f.finish(t, wait)
				if wait.Reattached() != 1 {
					t.Fatalf("attached again %d times", wait.Reattached())
				}
			})
		})
	}
}

func TestAVerdictEndsTheTrying(t *testing.T) {
	for _, code := range []codes.Code{
		codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.AlreadyExists, codes.DataLoss, codes.Unimplemented,
		codes.Unauthenticated, codes.PermissionDenied, codes.OutOfRange,
	} {
		t.Run(code.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fake) {
				go func() { f.next(t).end(refused(code, "R")) }()
				_, err := f.client.Open(t.Context(), &v1.WaitSpec{Name: "n"})
				wantRefusal(t, err, code, "R")

				wait, s := f.wait(t)
				s.end(refused(code, "R"))
				_, err = wait.Outcome(t.Context())
				wantRefusal(t, err, code, "R")

				wait, s = f.wait(t)
				s.end(status.Error(codes.Unavailable, "cut"))
				f.next(t).end(refused(code, "R"))
				_, err = wait.Outcome(t.Context())
				wantRefusal(t, err, code, "R")
			})
		})
	}
}

func TestC06SilenceForTwoIntervalsMeansThatTheConnectionIsDead(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		wait, _ := f.wait(t)
		synctest.Wait()
		frozen := f.connections()
		frozen[0].frozen.Store(true)
		begun := time.Now()
		s := f.next(t)
		if silent := time.Since(begun); silent < 50*time.Second || silent > 51*time.Second {
			t.Fatalf("given up after %v instead of twice 25 s", silent)
		}
		s.send(&v1.WaitEvent{Event: &v1.WaitEvent_Opened{Opened: &v1.Opened{AliveInterval: durationpb.New(time.Second)}}})
		// A sign of life of any kind keeps it.
		for range 100 {
			time.Sleep(1900 * time.Millisecond)
			s.send(aliveEvent())
		}
		synctest.Wait()
		if wait.Reattached() != 1 || len(f.connections()) != 2 {
			t.Fatalf("attached again %d times over %d connections", wait.Reattached(), len(f.connections()))
		}
		if !frozen[0].closed.Load() {
			t.Fatal("the connection that fell silent was left open")
		}
		begun = time.Now()
		f.finish(t, wait)
		if silent := time.Since(begun); silent < 2*time.Second || silent > 3*time.Second {
			t.Fatalf("given up after %v instead of twice 1 s", silent)
		}
	})
}

func TestACallOnASilentConnectionIsRepeatedOnAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		// Has no answer for those in a hurry.
		f.describe = func(ctx context.Context) (*v1.DescribeWaitResponse, error) {
			if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < 2*time.Second {
				<-ctx.Done()
			}
			return &v1.DescribeWaitResponse{}, ctx.Err()
		}
		describe := func() error {
			_, err := v1.NewResolveServiceClient(f.client).DescribeWait(t.Context(), &v1.DescribeWaitRequest{})
			return err
		}
		if err := describe(); err != nil {
			t.Fatal(err)
		}
		// A caller that gives up early says nothing of the connection.
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := v1.NewResolveServiceClient(f.client).DescribeWait(short, &v1.DescribeWaitRequest{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v", err)
		}
		if err := describe(); err != nil {
			t.Fatal(err)
		}
		if len(f.connections()) != 1 {
			t.Fatalf("%d connections", len(f.connections()))
		}
		f.connections()[0].frozen.Store(true)
		begun := time.Now()
		if err := describe(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 15*time.Second || took > 16*time.Second {
			t.Fatalf("repeated after %v", took)
		}
		if len(f.connections()) != 2 {
			t.Fatalf("%d connections", len(f.connections()))
		}
	})
}

func TestAStreamThatDoesNotBeginIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		wait, s := f.wait(t)
		s.end(nil)
		s = f.next(t)
		begun := time.Now()
		f.finish(t, wait)
		if took := time.Since(begun); took < 15*time.Second || took > 16*time.Second {
			t.Fatalf("given up after %v", took)
		}
		if s.ctx.Err() == nil {
			t.Fatal("the stream that did not begin is still there")
		}
	})
}

func TestAWaitOfSixtyDaysIsFollowedInWindowsOfAnHour(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		const days60 = 60 * 24 * time.Hour
		answered := time.Now().Add(days60)
		opened := &v1.WaitEvent{Event: &v1.WaitEvent_Opened{
			Opened: &v1.Opened{Token: token, AliveInterval: durationpb.New(25 * time.Minute)},
		}}
		windows := map[time.Duration]bool{}
		go func() {
			var ended time.Time
			for streams := 0; ; streams++ {
				s := f.next(t)
				if pause := time.Since(ended); streams > 0 && pause > 5*time.Millisecond {
					t.Errorf("attached again %v after a window", pause)
				}
				if streams == 0 && s.open.GetSpec().GetTimeout().AsDuration() != days60 {
					t.Errorf("the wait was opened with %v", s.open.GetSpec())
				}
				deadline, ok := s.ctx.Deadline()
				window := time.Until(deadline)
				if !ok || window < 54*time.Minute-time.Second || window > time.Hour {
					t.Errorf("a window of %v", window)
				}
				windows[window.Truncate(time.Second)] = true
				s.send(opened)
				for s.ctx.Err() == nil {
					if time.Now().After(answered) {
						s.send(answeredEvent("1"))
						s.end(nil)
						return
					}
					s.send(aliveEvent())
					select {
					case <-s.ctx.Done():
					case <-time.After(20 * time.Minute):
					}
				}
				ended = time.Now()
			}
		}()
		spec := &v1.WaitSpec{Name: "n", Expiry: &v1.WaitSpec_Timeout{Timeout: durationpb.New(days60)}}
		wait, err := f.client.Open(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		wantAnswer(t, wait, "1")
		// Between 54 and 60 minutes each, and nothing in between.
		if n := wait.Reattached(); n < 60*24-1 || n > 60*24*10/9+1 {
			t.Fatalf("attached again %d times", n)
		}
		if len(windows) < 200 {
			t.Fatalf("only %d windows differ", len(windows))
		}
	})
}

func TestAPlannedEndCostsNoDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		wait, s := f.wait(t)
		begun := time.Now()
		for range 20 {
			time.Sleep(healthy)
			s.send(detached(v1.Detached_REASON_LIFETIME, 0))
			s.end(nil)
			s = f.attached(t)
		}
		if took := time.Since(begun); took != 20*healthy {
			t.Fatalf("20 planned ends took %v", took-20*healthy)
		}
		time.Sleep(healthy)
		begun = time.Now()
		s.send(detached(v1.Detached_REASON_LIFETIME, time.Minute))
		s.end(nil)
		f.finish(t, wait)
		if took := time.Since(begun); took != time.Minute {
			t.Fatalf("attached again after %v", took)
		}
	})
}

func TestShortPlannedStreamsAreBackedOffFrom(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		wait, s := f.wait(t)
		begun := time.Now()
		for range 10 {
			s.send(detached(v1.Detached_REASON_LIFETIME, -time.Minute))
			s.end(nil)
			s = f.attached(t)
		}
		// The bounds add up to two minutes; that full jitter stays below this is one case in a million.
		if took := time.Since(begun); took < 5*time.Second {
			t.Fatalf("attached again 10 times in %v", took)
		}
		s.send(detached(v1.Detached_REASON_DRAIN, 0))
		s.end(status.Error(codes.Unavailable, "shutting down"))
		f.finish(t, wait)
	})
}

func TestWhatIsNoAnswerIsNeverTakenForOne(t *testing.T) {
	for name, outcome := range map[string]*v1.Outcome{
		"nothing":  {State: v1.Wait_STATE_RESOLVED},
		"no value": {State: v1.Wait_STATE_RESOLVED, Result: &v1.Outcome_Resolved{Resolved: &v1.Resolved{}}},
	} {
		inBubble(t, func(t *testing.T, f *fake) {
			wait, s := f.wait(t)
			s.send(&v1.WaitEvent{Event: &v1.WaitEvent_Outcome{Outcome: outcome}})
			s.end(nil)
			if _, err := wait.Outcome(t.Context()); !errors.Is(err, ErrProtocol) {
				t.Fatalf("%s: %v", name, err)
			}
		})
	}
}

func TestEventsThatAreNotKnownDoNotKeepAnOpeningAlive(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		second := make(chan time.Time, 1)
		go func() {
			s := f.next(t)
			for s.ctx.Err() == nil {
				s.send(&v1.WaitEvent{})
				time.Sleep(time.Second)
			}
			s = f.attached(t)
			second <- time.Now()
			s.send(answeredEvent("1"))
			s.end(nil)
		}()
		begun := time.Now()
		wait, err := f.client.Open(t.Context(), &v1.WaitSpec{Name: "n"})
		if err != nil {
			t.Fatal(err)
		}
		if took := (<-second).Sub(begun); took < attemptTimeout || took > attemptTimeout+2*time.Second {
			t.Fatalf("the stream that never began was given up after %v", took)
		}
		wantAnswer(t, wait, "1")
	})
}

func TestADrainKeepsTheClientAwayForAsLongAsItSays(t *testing.T) {
	for asked, least := range map[time.Duration]time.Duration{7 * time.Second: 7 * time.Second, time.Hour: 10 * time.Minute} {
		inBubble(t, func(t *testing.T, f *fake) {
			wait, s := f.wait(t)
			begun := time.Now()
			s.send(detached(v1.Detached_REASON_DRAIN, asked))
			s.end(status.Error(codes.Unavailable, "shutting down"))
			f.finish(t, wait)
			if away := time.Since(begun); away < least || away > least+250*time.Millisecond {
				t.Fatalf("away for %v", away)
			}
		})
	}
}

func TestTheDelayGrowsWithFullJitterAndIsForgottenAfterAHealthyStream(t *testing.T) {
	const rounds = 40
	bounds := []time.Duration{
		250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second,
		30 * time.Second, 30 * time.Second,
	}
	sums, least, most := make([]time.Duration, len(bounds)), slices.Clone(bounds), make([]time.Duration, len(bounds))
	inBubble(t, func(t *testing.T, f *fake) {
		_, s := f.wait(t)
		for range rounds {
			for n, bound := range bounds {
				begun := time.Now()
				s.end(status.Error(codes.Unavailable, "cut"))
				s = f.attached(t)
				delay := time.Since(begun)
				if delay > bound {
					t.Fatalf("try %d waited %v", n, delay)
				}
				sums[n] += delay
				least[n], most[n] = min(least[n], delay), max(most[n], delay)
			}
			time.Sleep(5 * time.Second)
		}
	})
	for n, sum := range sums {
		// Half the bound on average: five deviations to each side are 0.23 of it.
		if share := float64(sum) / float64(rounds*bounds[n]); share < 0.27 || share > 0.73 {
			t.Errorf("try %d waited %.2f of its bound on average", n, share)
		}
		if least[n] > bounds[n]*4/10 || most[n] < bounds[n]*6/10 {
			t.Errorf("try %d waited between %v and %v", n, least[n], most[n])
		}
	}
}

func TestC12AScoldingServerIsTriedAHandfulOfTimesAMinute(t *testing.T) {
	for _, scolding := range []error{
		status.Error(codes.ResourceExhausted, "too much"),
		status.Error(codes.Unavailable, "closing transport due to: EOF, received prior goaway: code: ENHANCE_YOUR_CALM, debug data: x"),
	} {
		inBubble(t, func(t *testing.T, f *fake) {
			wait, s := f.wait(t)
			begun, tries, first := time.Now(), 0, time.Duration(0)
			for time.Since(begun) < 10*time.Minute {
				// Long enough to count as a healthy stream otherwise.
				time.Sleep(6 * time.Second)
				cut := time.Now()
				s.end(scolding)
				s = f.attached(t)
				if tries++; tries == 1 {
					first = time.Since(cut)
				}
			}
			// The delays are 15 s on average.
			if tries > 50 || first > 8*time.Second {
				t.Fatalf("%d tries in ten minutes, the first after %v", tries, first)
			}
			if f.log.warnings() != 1 {
				t.Fatalf("%d warnings", f.log.warnings())
			}
			s.end(nil)
			f.finish(t, wait)
		})
	}
}

func TestWaitsThatAreScoldedTogetherComeBackTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		const count = 50
		streams := make([]*fakeStream, count)
		for i := range streams {
			_, streams[i] = f.wait(t)
		}
		for _, s := range streams {
			s.end(status.Error(codes.Unavailable, "received prior goaway: code: ENHANCE_YOUR_CALM"))
		}
		f.attached(t)
		begun := time.Now()
		for range count - 1 {
			f.attached(t)
		}
		if spread := time.Since(begun); spread != 0 {
			t.Fatalf("they came back over %v, and brought the connection back each time", spread)
		}
		if f.log.warnings() != 1 {
			t.Fatalf("%d warnings", f.log.warnings())
		}
	})
}

func TestACallForRestraintMakesTheFirstDelayLong(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		const count = 50
		streams := make([]*fakeStream, count)
		for i := range streams {
			_, streams[i] = f.wait(t)
		}
		begun := time.Now()
		for _, s := range streams {
			s.end(status.Error(codes.ResourceExhausted, "too much"))
		}
		for range count {
			f.attached(t)
		}
		if last := time.Since(begun); last < 4*time.Second || last > 8*time.Second {
			t.Fatalf("the last of %d came back after %v", count, last)
		}
	})
}

func TestAStreamIsReadToItsEndAfterItsOutcome(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		wait, s := f.wait(t)
		s.send(answeredEvent("1"))
		time.Sleep(900 * time.Millisecond)
		if s.ctx.Err() != nil {
			t.Fatal("the stream was reset before its end")
		}
		s.end(nil)
		wantAnswer(t, wait, "1")
		wantAnswer(t, wait, "1")

		// An end that never comes does not keep the answer.
		wait, s = f.wait(t)
		begun := time.Now()
		s.send(answeredEvent("2"))
		wantAnswer(t, wait, "2")
		if took := time.Since(begun); took > time.Second {
			t.Fatalf("the answer took %v", took)
		}
		<-s.ctx.Done()
	})
}

func TestAnAnswerCountsThoughTheStreamBreaksAfterIt(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		wait, s := f.wait(t)
		s.send(answeredEvent("1"))
		s.end(status.Error(codes.Internal, "reset"))
		wantAnswer(t, wait, "1")
		if wait.Reattached() != 0 {
			t.Fatal("attached again after the answer")
		}
	})
}

func TestWhatIsNotKnownIsPassedOverAndNeverAnAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		wait, s := f.wait(t)
		s.send(&v1.WaitEvent{})
		s.send(nil)
		s.send(answeredEvent("1"))
		s.end(nil)
		wantAnswer(t, wait, "1")

		wait, s = f.wait(t)
		s.send(&v1.WaitEvent{Event: &v1.WaitEvent_Outcome{Outcome: &v1.Outcome{State: 99}}})
		s.end(nil)
		if _, err := wait.Outcome(t.Context()); !errors.Is(err, ErrProtocol) {
			t.Fatalf("%v", err)
		}
	})
}

func TestAnOpenIsRepeatedWithTheSameRequestID(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		ids := make(chan string, 10)
		go func() {
			for range 3 {
				s := f.next(t)
				ids <- s.open.GetRequestId() + fmt.Sprint(s.open.GetSpec().GetNoTimeout())
				s.end(status.Error(codes.Internal, "reset"))
			}
			s := f.attached(t)
			ids <- s.open.GetRequestId() + fmt.Sprint(s.open.GetSpec().GetNoTimeout())
		}()
		if _, err := f.client.Open(t.Context(), &v1.WaitSpec{Name: "n"}); err != nil {
			t.Fatal(err)
		}
		first := <-ids
		if len(first) != 36+len("true") || first[14] != '7' {
			t.Fatalf("%q is no UUIDv7 beside no_timeout", first)
		}
		for range 3 {
			if id := <-ids; id != first {
				t.Fatalf("%q after %q", id, first)
			}
		}
	})
}

func TestPatienceEndsWithWhatTheTransportSaid(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		f.describe = func(context.Context) (*v1.DescribeWaitResponse, error) {
			return nil, status.Error(codes.Unavailable, "nobody home")
		}
		begun := time.Now()
		_, err := v1.NewResolveServiceClient(f.client).DescribeWait(t.Context(), &v1.DescribeWaitRequest{})
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Message != "nobody home" || refusal.IsVerdict() {
			t.Fatalf("%v", err)
		}
		if took := time.Since(begun); took != 30*time.Second {
			t.Fatalf("given up after %v", took)
		}
	})
}

func TestTheEndOfTheContextDetaches(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		ctx, cancel := context.WithCancel(t.Context())
		began := make(chan *fakeStream, 1)
		go func() { began <- f.attached(t) }()
		wait, err := f.client.Open(ctx, &v1.WaitSpec{Name: "n"})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := wait.Outcome(t.Context()); !errors.Is(err, context.Canceled) {
			t.Fatalf("%v", err)
		}
		<-(<-began).ctx.Done()
		if f.log.count("attaching again") != 0 {
			t.Fatal("the end of the context was taken for a cut")
		}

		followed, _ := f.wait(t)
		f.client.Close()
		if _, err := followed.Outcome(t.Context()); !errors.Is(err, ErrClosed) {
			t.Fatalf("%v", err)
		}
		if _, err := f.client.Open(t.Context(), &v1.WaitSpec{Name: "n"}); !errors.Is(err, ErrClosed) {
			t.Fatalf("%v", err)
		}
	})
}

func TestAnAskMayBeLate(t *testing.T) {
	for name, c := range map[string]struct {
		ask      error
		recorded *v1.Outcome
		want     string
	}{
		"with its answer":            {ask: &Refusal{Reason: "ALREADY_SETTLED"}, want: "1"},
		"with its failure":           {ask: errors.New("x"), recorded: answeredEvent("2").GetOutcome(), want: "2"},
		"and its failure be in time": {ask: errors.New("x"), recorded: cancelled()},
		"and nobody know":            {ask: errors.New("x"), recorded: &v1.Outcome{}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fake) {
				f.recorded = c.recorded
				began := make(chan *fakeStream, 1)
				go func() { began <- f.attached(t) }()
				outcome, err := f.client.WaitFor(t.Context(), &v1.WaitSpec{Name: "n"}, func(context.Context, *Wait) error {
					s := <-began
					time.AfterFunc(10*time.Second, func() { s.send(answeredEvent("1")); s.end(nil) })
					return c.ask
				})
				if got := outcome.GetResolved().GetPayloadJson(); got != c.want || (err == nil) != (c.want != "") {
					t.Fatalf("%v, %v", outcome, err)
				}
				if err != nil && !errors.Is(err, c.ask) {
					t.Fatalf("%v", err)
				}
			})
		})
	}
}

func cancelled() *v1.Outcome {
	return &v1.Outcome{State: v1.Wait_STATE_CANCELLED, Result: &v1.Outcome_Cancelled{Cancelled: &v1.Cancelled{}}}
}

func detached(reason v1.Detached_Reason, delay time.Duration) *v1.WaitEvent {
	return &v1.WaitEvent{Event: &v1.WaitEvent_Detached{
		Detached: &v1.Detached{Reason: reason, RetryDelay: durationpb.New(delay)},
	}}
}

func TestAnAddressIsCheckedBeforeAnythingWaitsForIt(t *testing.T) {
	for _, good := range []string{"127.0.0.1:2239", "localhost:1", "[::1]:1", "http://127.0.0.1:2239", "http://a:1/", "dns:///a:1", "unix:///a"} {
		client, err := NewClient(good)
		if err != nil {
			t.Fatalf("%s: %v", good, err)
		}
		client.Close()
	}
	for _, bad := range []string{"", "localhost", ":2239", "a:99999", "a:0", "a:b", "https://a:1", "http://a", "http://a:1/b"} {
		if _, err := NewClient(bad); err == nil {
			t.Fatalf("%q was taken", bad)
		}
	}
}
