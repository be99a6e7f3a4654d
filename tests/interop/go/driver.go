package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	v1 "example.com/abeyance/abeyancev1"
	"example.com/abeyance/reattach"
)

// driver keeps one client for each target, and the waits that are followed.
type driver struct {
	mu       sync.Mutex
	peers    map[string]*peer
	followed map[string]followed
}

// peer is the client of one target and what it warned of.
type peer struct {
	client   *reattach.Client
	waits    v1.WaitServiceClient
	resolves v1.ResolveServiceClient
	warnings *warnings
}

// followed waits for a wait's end, and tells how often it was attached to again.
type followed func(context.Context) (outcome *v1.Outcome, reattached int, err error)

func newDriver() *driver {
	return &driver{peers: map[string]*peer{}, followed: map[string]followed{}}
}

func (d *driver) peer(target string) (*peer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.peers[target]; ok {
		return known, nil
	}
	client, err := reattach.NewClient(target)
	if err != nil {
		return nil, err
	}
	p := &peer{
		client:   client,
		waits:    v1.NewWaitServiceClient(client),
		resolves: v1.NewResolveServiceClient(client),
		warnings: &warnings{},
	}
	client.Log = slog.New(p.warnings)
	d.peers[target] = p
	return p, nil
}

func (d *driver) follow(waitID string, f followed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.followed[waitID] = f
}

func (d *driver) carryOut(ctx context.Context, r *request) (answer, error) {
	ops := map[string]func(context.Context, *peer, *request) (answer, error){
		"open":        d.open,
		"outcome":     d.outcome,
		"mark_asked":  markAsked,
		"cancel":      cancel,
		"resolve":     resolve,
		"fail":        fail,
		"describe":    describe,
		"by_deadline": d.byDeadline,
		"hold":        d.hold,
		"crowd":       crowd,
		"warnings":    told,
	}
	op, ok := ops[r.Op]
	if !ok {
		return nil, fmt.Errorf("unknown op %q", r.Op)
	}
	p, err := d.peer(r.Target)
	if err != nil {
		return nil, err
	}
	return op(ctx, p, r)
}

// warnings keeps the lines of a client's log that are warnings, and writes all of them on.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.lines
	w.lines = nil
	return append([]string{}, lines...)
}

func (*warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (w *warnings) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelWarn {
		line := record.Message
		record.Attrs(func(a slog.Attr) bool {
			line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
			return true
		})
		w.mu.Lock()
		w.lines = append(w.lines, line)
		w.mu.Unlock()
	}
	return slog.NewTextHandler(os.Stderr, nil).Handle(ctx, record)
}

func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }
func (w *warnings) WithGroup(string) slog.Handler      { return w }

func told(_ context.Context, p *peer, _ *request) (answer, error) {
	return answer{"warnings": p.warnings.take()}, nil
}

// has tells whether an optional JSON value was given.
func has(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

var errNoAnswer = errors.New("neither payload_json nor results")
