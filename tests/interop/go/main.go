// Command interop is Go's driver of the interop matrix: ../README.md has its protocol.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"example.com/abeyance/reattach"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/status"
)

// request is one line of the input. Each op reads its own of these.
type request struct {
	ID          json.RawMessage   `json:"id"`
	Op          string            `json:"op"`
	Target      string            `json:"target"`
	Name        string            `json:"name"`
	Key         string            `json:"key"`
	TimeoutMS   int64             `json:"timeout_ms"`
	Question    json.RawMessage   `json:"question"`
	Labels      map[string]string `json:"labels"`
	WaitID      string            `json:"wait_id"`
	Token       string            `json:"token"`
	Reason      string            `json:"reason"`
	PayloadJSON *string           `json:"payload_json"`
	Results     json.RawMessage   `json:"results"`
	Partial     bool              `json:"partial"`
	AnsweredBy  string            `json:"answered_by"`
	RequestID   string            `json:"request_id"`
	ErrorType   string            `json:"error_type"`
	DetailsJSON string            `json:"details_json"`
	DeadlineMS  int64             `json:"deadline_ms"`
	KeepaliveMS int64             `json:"keepalive_ms"`
	Count       int               `json:"count"`
}

// answer is what an op answers with.
type answer map[string]any

// failure is an error as the protocol writes it.
type failure struct {
	Code       string            `json:"code"`
	Reason     string            `json:"reason,omitempty"`
	Message    string            `json:"message"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	Violations []violation       `json:"violations,omitempty"`
}

type violation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

func failureOf(err error) failure {
	var refusal *reattach.Refusal
	if !errors.As(err, &refusal) {
		// A stock channel gives bare statuses.
		if s, ok := status.FromError(err); ok {
			return failure{Code: code.Code(s.Code()).String(), Message: s.Message()}
		}
		return failure{Code: "CLIENT", Message: err.Error()}
	}
	f := failure{
		Code:     code.Code(refusal.Code).String(),
		Reason:   refusal.Reason,
		Message:  refusal.Message,
		Metadata: refusal.Metadata,
	}
	for _, v := range refusal.Violations {
		f.Violations = append(f.Violations, violation(v))
	}
	return f
}

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err := run(os.Stdin, os.Stdout); err != nil {
		slog.Error("the driver ends", "cause", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var mu sync.Mutex
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	write := func(line any) {
		mu.Lock()
		defer mu.Unlock()
		if err := encoder.Encode(line); err != nil {
			slog.Error("an answer could not be written", "cause", err)
		}
	}
	write(answer{"ready": answer{"language": "go"}})

	d := newDriver()
	lines := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("a line that is no request: %w", err)
		}
		go func() {
			if ok, err := d.carryOut(context.Background(), &r); err != nil {
				write(answer{"id": r.ID, "error": failureOf(err)})
			} else {
				write(answer{"id": r.ID, "ok": ok})
			}
		}()
	}
}
