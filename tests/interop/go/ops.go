package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "example.com/abeyance/abeyancev1"
	"example.com/abeyance/reattach"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

func (d *driver) open(ctx context.Context, p *peer, r *request) (answer, error) {
	spec := &v1.WaitSpec{Name: r.Name, Key: r.Key, Labels: r.Labels}
	if r.TimeoutMS != 0 {
		spec.Expiry = &v1.WaitSpec_Timeout{Timeout: milliseconds(r.TimeoutMS)}
	}
	if has(r.Question) {
		spec.Question = &v1.Question{}
		if err := protojson.Unmarshal(r.Question, spec.Question); err != nil {
			return nil, err
		}
	}
	wait, err := p.client.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	d.follow(wait.ID(), func(ctx context.Context) (*v1.Outcome, int, error) {
		outcome, err := wait.Outcome(ctx)
		return outcome, wait.Reattached(), err
	})
	return opened(wait.Token(), wait.Opened()), nil
}

func opened(token reattach.Token, o *v1.Opened) answer {
	return answer{
		"token":          token.Expose(),
		"wait_id":        o.GetWaitId(),
		"asked":          o.GetAsked(),
		"resumed":        o.GetResumed(),
		"timeout_ms":     o.GetTimeout().AsDuration().Milliseconds(),
		"timeout_source": source(o.GetTimeoutSource()),
	}
}

func (d *driver) outcome(ctx context.Context, _ *peer, r *request) (answer, error) {
	d.mu.Lock()
	end, ok := d.followed[r.WaitID]
	d.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("the wait %q is not followed here", r.WaitID)
	}
	outcome, reattached, err := end(ctx)
	if err != nil {
		return nil, err
	}
	a := answer{"state": state(outcome.GetState()), "reattached": reattached}
	switch result := outcome.GetResult().(type) {
	case *v1.Outcome_Resolved:
		a["payload_json"] = result.Resolved.GetPayloadJson()
		a["answered_by"] = result.Resolved.GetAnsweredBy()
	case *v1.Outcome_Failed:
		a["reason"] = result.Failed.GetReason()
		a["error_type"] = result.Failed.GetErrorType()
		a["details_json"] = result.Failed.GetDetailsJson()
	case *v1.Outcome_Expired:
		a["reason"] = result.Expired.GetReason()
		a["cause"] = strings.TrimPrefix(result.Expired.GetCause().String(), "CAUSE_")
	case *v1.Outcome_Cancelled:
		a["reason"] = result.Cancelled.GetReason()
	}
	if outcome.GetResults() != nil {
		a["results_json"] = outcome.GetResultsJson()
		if a["results"], err = jsonForm(outcome.GetResults()); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func markAsked(ctx context.Context, p *peer, r *request) (answer, error) {
	_, err := p.waits.MarkAsked(ctx, &v1.MarkAskedRequest{Token: r.Token})
	return answer{}, err
}

func cancel(ctx context.Context, p *peer, r *request) (answer, error) {
	response, err := p.waits.CancelWait(ctx, &v1.CancelWaitRequest{Token: r.Token, Reason: r.Reason})
	return answer{"state": state(response.GetOutcome().GetState())}, err
}

func resolve(ctx context.Context, p *peer, r *request) (answer, error) {
	request := &v1.ResolveRequest{Token: r.Token, Partial: r.Partial, AnsweredBy: r.AnsweredBy, RequestId: r.RequestID}
	switch {
	case has(r.Results):
		results := &v1.DeferredToolResults{}
		if err := protojson.Unmarshal(r.Results, results); err != nil {
			return nil, err
		}
		request.Answer = &v1.ResolveRequest_Results{Results: results}
	case r.PayloadJSON != nil:
		request.Answer = &v1.ResolveRequest_PayloadJson{PayloadJson: *r.PayloadJSON}
	default:
		return nil, errNoAnswer
	}
	response, err := p.resolves.Resolve(ctx, request)
	return answer{
		"state":       state(response.GetState()),
		"replayed":    response.GetReplayed(),
		"answered_by": response.GetAnsweredBy(),
	}, err
}

func fail(ctx context.Context, p *peer, r *request) (answer, error) {
	request := &v1.FailRequest{Token: r.Token, Reason: r.Reason, ErrorType: r.ErrorType, DetailsJson: r.DetailsJSON}
	response, err := p.resolves.Fail(ctx, request)
	return answer{"state": state(response.GetState()), "replayed": response.GetReplayed()}, err
}

func describe(ctx context.Context, p *peer, r *request) (answer, error) {
	response, err := p.resolves.DescribeWait(ctx, &v1.DescribeWaitRequest{Token: r.Token})
	wait := response.GetWait()
	return answer{
		"state":          state(wait.GetState()),
		"name":           wait.GetName(),
		"timeout_ms":     wait.GetTimeout().AsDuration().Milliseconds(),
		"timeout_source": source(wait.GetTimeoutSource()),
	}, err
}

func milliseconds(n int64) *durationpb.Duration {
	return durationpb.New(time.Duration(n) * time.Millisecond)
}

func state(s v1.Wait_State) string { return strings.TrimPrefix(s.String(), "STATE_") }

func source(s v1.TimeoutSource) string { return strings.TrimPrefix(s.String(), "TIMEOUT_SOURCE_") }

// jsonForm gives a message in protobuf's JSON form.
func jsonForm(message proto.Message) (json.RawMessage, error) { return protojson.Marshal(message) }
