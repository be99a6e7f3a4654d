package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"

	v1 "example.com/abeyance/abeyancev1"
	"example.com/abeyance/reattach"
	"google.golang.org/grpc/codes"
)

// largestBody is wider than any answer that the broker takes.
const largestBody = 2 << 20

// service takes tokens from workers, answers what its policy can, and keeps the rest for people. A real one keeps tokens in a database,
// and knows who its callers are.
//
//	POST /waits              {"token": "abey_…"}: from a worker's ask. The same token again does no harm.
//	GET  /waits              what is left to people: wait ids and tool calls.
//	POST /waits/{id}/answer  an answer as JSON, DeferredToolResults or a part of them: from a person's page.
type service struct {
	resolves v1.ResolveServiceClient

	mu   sync.Mutex
	left map[string]reattach.Token // By wait id, which is no secret.
}

func newService(client *reattach.Client) *service {
	return &service{resolves: v1.NewResolveServiceClient(client), left: map[string]reattach.Token{}}
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /waits", reply(s.take))
	mux.Handle("GET /waits", reply(s.list))
	mux.Handle("POST /waits/{id}/answer", reply(s.answer))
	return mux
}

// taken says what became of a token that was handed on.
type taken struct {
	WaitID  string   `json:"wait_id"`
	Decided int      `json:"decided"`
	Left    []string `json:"left"`
}

func (s *service) take(r *http.Request) (any, error) {
	var handed struct{ Token string }
	if err := json.NewDecoder(r.Body).Decode(&handed); err != nil {
		return nil, badRequest(err.Error())
	}
	token := reattach.NewToken(handed.Token)
	// The broker says what is asked, not whoever called.
	wait, err := s.describe(r.Context(), token)
	if err != nil {
		return nil, err
	}
	decided, left := verdicts(wait.GetQuestion().GetDeferred().GetCalls())
	answer := &v1.ResolveRequest{
		Token:      token.Expose(),
		Answer:     &v1.ResolveRequest_Results{Results: decided},
		Partial:    true,
		AnsweredBy: "policy",
	}
	if wait.GetState() == v1.Wait_STATE_PENDING && len(decided.GetApprovals()) > 0 {
		if _, err := s.resolves.Resolve(r.Context(), answer); err != nil {
			return nil, err
		}
	}
	if wait.GetState() == v1.Wait_STATE_PENDING && len(left) > 0 {
		s.mu.Lock()
		s.left[wait.GetWaitId()] = token
		s.mu.Unlock()
	}
	slog.Info("taken", "wait_id", wait.GetWaitId(), "decided", len(decided.GetApprovals()), "left", len(left))
	return taken{wait.GetWaitId(), len(decided.GetApprovals()), left}, nil
}

// shown is a wait that is left to people.
type shown struct {
	WaitID string     `json:"wait_id"`
	Calls  []toolCall `json:"calls"`
}

type toolCall struct {
	ID   string          `json:"id"`
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

func (s *service) list(r *http.Request) (any, error) {
	s.mu.Lock()
	tokens := make([]reattach.Token, 0, len(s.left))
	for _, token := range s.left {
		tokens = append(tokens, token)
	}
	s.mu.Unlock()
	waits := []shown{}
	for _, token := range tokens {
		wait, err := s.describe(r.Context(), token)
		if err != nil {
			return nil, err
		}
		if wait.GetState() != v1.Wait_STATE_PENDING {
			s.forget(wait.GetWaitId())
			continue
		}
		w := shown{WaitID: wait.GetWaitId()}
		for _, call := range wait.GetQuestion().GetDeferred().GetCalls() {
			w.Calls = append(w.Calls, toolCall{call.GetToolCallId(), call.GetToolName(), json.RawMessage(call.GetArgsJson())})
		}
		waits = append(waits, w)
	}
	return waits, nil
}

func (s *service) answer(r *http.Request) (any, error) {
	s.mu.Lock()
	token, ok := s.left[r.PathValue("id")]
	s.mu.Unlock()
	if !ok {
		return nil, &reattach.Refusal{Code: codes.NotFound, Message: "no such wait is left to people"}
	}
	// As it was written: the broker checks it, and the worker gets these bytes.
	payload, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	response, err := s.resolves.Resolve(r.Context(), &v1.ResolveRequest{
		Token:      token.Expose(),
		Answer:     &v1.ResolveRequest_PayloadJson{PayloadJson: string(payload)},
		Partial:    true,
		AnsweredBy: r.Header.Get("X-User"),
	})
	if err != nil {
		return nil, err
	}
	if response.GetState() != v1.Wait_STATE_PENDING {
		s.forget(response.GetWaitId())
	}
	return map[string]any{"state": response.GetState().String(), "replayed": response.GetReplayed()}, nil
}

func (s *service) forget(waitID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.left, waitID)
}

func (s *service) describe(ctx context.Context, token reattach.Token) (*v1.Wait, error) {
	response, err := s.resolves.DescribeWait(ctx, &v1.DescribeWaitRequest{Token: token.Expose()})
	return response.GetWait(), err
}

func badRequest(message string) error {
	return &reattach.Refusal{Code: codes.InvalidArgument, Message: message}
}

// problem is an error for people's pages: all that the broker said about it.
type problem struct {
	Message    string               `json:"message"`
	Reason     string               `json:"reason,omitempty"`
	Violations []reattach.Violation `json:"violations,omitempty"`
	Metadata   map[string]string    `json:"metadata,omitempty"`
}

// reply writes what a handler returns, a refusal with its details included.
func reply(handle func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, largestBody)
		status := http.StatusOK
		body, err := handle(r)
		if err != nil {
			status = http.StatusServiceUnavailable
			p := problem{Message: err.Error()}
			var refusal *reattach.Refusal
			if errors.As(err, &refusal) {
				p = problem{refusal.Message, refusal.Reason, refusal.Violations, refusal.Metadata}
				status = statusOf(refusal.Code)
				if refusal.RetryDelay > 0 {
					w.Header().Set("Retry-After", strconv.Itoa(int(refusal.RetryDelay.Seconds()+1)))
				}
			}
			body = p
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(body); err != nil {
			slog.Warn("a reply could not be written", "cause", err)
		}
	})
}

func statusOf(code codes.Code) int {
	switch code {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.NotFound:
		return http.StatusNotFound
	case codes.FailedPrecondition:
		return http.StatusConflict
	}
	return http.StatusServiceUnavailable
}
