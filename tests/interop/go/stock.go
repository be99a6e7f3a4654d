package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "example.com/abeyance/abeyancev1"
	"example.com/abeyance/reattach"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/durationpb"
)

// byDeadline opens a wait whose timeout is the deadline of its call.
func (d *driver) byDeadline(ctx context.Context, _ *peer, r *request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.DeadlineMS)*time.Millisecond)
	return d.stock(ctx, cancel, r.Target, &v1.WaitSpec{Name: r.Name})
}

// hold opens a wait on a channel that pings often, also without calls.
func (d *driver) hold(ctx context.Context, _ *peer, r *request) (answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	spec := &v1.WaitSpec{Name: r.Name, Expiry: &v1.WaitSpec_Timeout{Timeout: milliseconds(r.TimeoutMS)}}
	return d.stock(ctx, cancel, r.Target, spec, grpc.WithKeepaliveParams(keepalive.ClientParameters{
		Time:                time.Duration(r.KeepaliveMS) * time.Millisecond,
		Timeout:             20 * time.Second,
		PermitWithoutStream: true,
	}))
}

// stock opens a wait with the generated stub alone and reads its stream, which ends with ctx at the latest.
func (d *driver) stock(
	ctx context.Context, cancel context.CancelFunc, target string, spec *v1.WaitSpec, options ...grpc.DialOption,
) (answer, error) {
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &stockStream{ended: make(chan struct{})}
	opening := make(chan *v1.Opened, 1)
	go func() {
		defer cancel()
		defer conn.Close()
		defer close(s.ended)
		s.outcome, s.err = read(ctx, v1.NewWaitServiceClient(conn), spec, opening)
	}()
	select {
	case o := <-opening:
		d.follow(o.GetWaitId(), s.end)
		return opened(reattach.NewToken(o.GetToken()), o), nil
	case <-s.ended:
		return nil, s.err
	}
}

type stockStream struct {
	ended   chan struct{}
	outcome *v1.Outcome
	err     error
}

func (s *stockStream) end(ctx context.Context) (*v1.Outcome, int, error) {
	select {
	case <-s.ended:
		return s.outcome, 0, s.err
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
}

func read(ctx context.Context, waits v1.WaitServiceClient, spec *v1.WaitSpec, opening chan<- *v1.Opened) (*v1.Outcome, error) {
	stream, err := waits.Wait(ctx, &v1.WaitRequest{Spec: spec})
	for err == nil {
		var response *v1.WaitResponse
		if response, err = stream.Recv(); err != nil {
			break
		}
		if o := response.GetEvent().GetOpened(); o != nil {
			opening <- o
		}
		if outcome := response.GetEvent().GetOutcome(); outcome != nil {
			return outcome, nil
		}
	}
	return nil, err
}

// crowd holds many waits with one client, and answers one of them with it.
func crowd(ctx context.Context, p *peer, r *request) (answer, error) {
	spec := &v1.WaitSpec{Name: r.Name, Expiry: &v1.WaitSpec_Timeout{Timeout: durationpb.New(5 * time.Minute)}}
	waits := make([]*reattach.Wait, r.Count)
	errs := make([]error, r.Count)
	each := func(f func(i int) error) error {
		var group sync.WaitGroup
		for i := range r.Count {
			group.Go(func() { errs[i] = f(i) })
		}
		group.Wait()
		return errors.Join(errs...)
	}
	if err := each(func(i int) (err error) {
		waits[i], err = p.client.Open(ctx, spec)
		return err
	}); err != nil {
		return nil, err
	}
	last := waits[r.Count-1]
	begun := time.Now()
	_, err := p.resolves.Resolve(ctx, &v1.ResolveRequest{
		Token:  last.Token().Expose(),
		Answer: &v1.ResolveRequest_PayloadJson{PayloadJson: "true"},
	})
	if err != nil {
		return nil, err
	}
	took := time.Since(begun)
	err = each(func(i int) error {
		if waits[i] != last {
			request := &v1.CancelWaitRequest{Token: waits[i].Token().Expose(), Reason: "The crowd goes home."}
			if _, err := p.waits.CancelWait(ctx, request); err != nil {
				return err
			}
		}
		outcome, err := waits[i].Outcome(ctx)
		if err == nil && (outcome.GetResolved() != nil) != (waits[i] == last) {
			err = fmt.Errorf("the wait %s ended as another should", waits[i].ID())
		}
		return err
	})
	return answer{"resolve_ms": float64(took.Microseconds()) / 1000}, err
}
