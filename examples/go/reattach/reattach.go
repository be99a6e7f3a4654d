// Package reattach keeps a worker attached to a wait of Abeyance until its outcome, through cut connections, silent ones and restarts of
// the broker. It is this one file, to be copied beside the generated stubs.
//
// A [Client] stands where the stubs expect a connection, so every call of the contract can be made with it:
//
//	client, err := reattach.NewClient("127.0.0.1:2239")
//	outcome, err := client.WaitFor(ctx, spec, ask)                                  // a worker
//	response, err := abeyancev1.NewResolveServiceClient(client).Resolve(ctx, answer) // a resolver
//
// Calls that have one answer are repeated for up to 30 s while the broker cannot be reached. What the broker refuses is a [*Refusal].
// Requests hold tokens: do not log them.
package reattach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "example.com/abeyance/abeyancev1"
	"github.com/google/uuid"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	attemptTimeout    = 15 * time.Second       // One try of a call, and the time to a stream's first event.
	patience          = 30 * time.Second       // For how long a call is repeated.
	farewell          = 5 * time.Second        // How long the withdrawing of a wait may hold up a worker that was cancelled.
	backoffBase       = 250 * time.Millisecond // The bound of the first delay; it doubles from try to try,
	backoffCap        = 30 * time.Second       // up to this.
	restrainedTry     = 5                      // The number that tries begin with where somebody asks for restraint.
	longestRetryDelay = 10 * time.Minute       // The longest time that a server may keep a client away.
	healthy           = 5 * time.Second        // A stream that lived for this long makes the next cut a first one.
	aliveInterval     = 25 * time.Second       // The period of signs of life where the broker names none.
	endOfStream       = time.Second            // How long the end of a stream may take after its last event.
	shortestWindow    = 54 * time.Minute       // A stream lives for this long
	windowSpread      = 6 * time.Minute        // and a random part of this, whatever the wait's timeout.
	calmAgain         = time.Hour              // After so long without a scolding, the next one is worth a line again.
)

// Token is the bearer credential of a wait. However it is printed, formatted or logged, it shows nothing of itself.
type Token struct{ expose func() string }

// NewToken makes a Token of the text that a worker handed on.
func NewToken(text string) Token { return Token{func() string { return text }} }

// Expose returns the text of the token, for whoever may answer. Empty for the zero Token.
func (t Token) Expose() string {
	if t.expose == nil {
		return ""
	}
	return t.expose()
}

// Format implements [fmt.Formatter] for every verb.
func (t Token) Format(out fmt.State, _ rune) { _, _ = io.WriteString(out, "abey_(hidden)") }

// LogValue implements [slog.LogValuer].
func (t Token) LogValue() slog.Value { return slog.StringValue("abey_(hidden)") }

// Violation is one fault of a request.
type Violation struct {
	// Field is its path; for INVALID_ANSWER the path in the answer, as in `approvals["call_2"].override_args`.
	Field string `json:"field"`
	// Description says what is wrong with it.
	Description string `json:"description"`
}

// Refusal is what the broker, or the transport, said instead of an answer. Get it with [errors.As].
type Refusal struct {
	Code       codes.Code        // The status code.
	Message    string            // The message, for people.
	Reason     string            // A name of ErrorReason without its prefix, as in ALREADY_SETTLED. Empty where the broker did not speak.
	Metadata   map[string]string // What belongs to the reason, for example `state`.
	Violations []Violation       // The faults of the request, one by one. May be empty.
	RetryDelay time.Duration     // How long to wait before the call is repeated. Zero where nobody asked for that.

	status *status.Status
}

func (r *Refusal) Error() string {
	if r.Reason != "" {
		return fmt.Sprintf("%s (%s)", r.Message, r.Reason)
	}
	return fmt.Sprintf("%s (%s)", r.Message, r.Code)
}

// GRPCStatus gives the whole status to [status.FromError] and [status.Code].
func (r *Refusal) GRPCStatus() *status.Status { return r.status }

// IsVerdict tells a verdict on the request from a cut. Meshes end calls with any status, so only these codes are verdicts; repeating the
// call as it is would bring the same one.
func (r *Refusal) IsVerdict() bool {
	switch r.Code {
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.AlreadyExists, codes.DataLoss, codes.Unimplemented,
		codes.Unauthenticated, codes.PermissionDenied, codes.OutOfRange:
		return true
	}
	return false
}

// scolds tells whether a server finds that the client does too much, and whether it ended the connection over it.
func (r *Refusal) scolds() (scolds, hungUp bool) {
	// grpc-go tells of a GOAWAY in no other way than in the message.
	hungUp = r.Code == codes.Unavailable && (strings.Contains(r.Message, "ENHANCE_YOUR_CALM") || strings.Contains(r.Message, "too_many_pings"))
	return hungUp || r.Code == codes.ResourceExhausted, hungUp
}

func refusalOf(err error) *Refusal {
	s := status.Convert(err)
	r := &Refusal{Code: s.Code(), Message: s.Message(), status: s}
	for _, detail := range s.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			r.Reason, r.Metadata = detail.GetReason(), detail.GetMetadata()
		case *errdetails.BadRequest:
			for _, v := range detail.GetFieldViolations() {
				r.Violations = append(r.Violations, Violation{v.GetField(), v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			r.RetryDelay = detail.GetRetryDelay().AsDuration()
		}
	}
	return r
}

// AskError says that the ask of a wait failed. A wait without a key was cancelled; one with a key is open and not asked, so that running
// again asks again.
type AskError struct{ Err error }

func (e *AskError) Error() string { return "the ask failed: " + e.Err.Error() }
func (e *AskError) Unwrap() error { return e.Err }

var (
	// ErrClosed is the end of every call and wait of a client that was closed.
	ErrClosed = errors.New("the client is closed")
	// ErrProtocol means that the broker sent what this client does not know. Never taken for an answer.
	ErrProtocol = errors.New("what the broker sent cannot be understood")

	errSilent = errors.New("no sign of life")
)

// Client is a client of one broker. Safe for concurrent use. It implements [grpc.ClientConnInterface].
//
// It has three connections, so that no number of waits keeps a call from its turn: for followed waits, for calls that have one answer,
// and for streams that are begun with the stubs, such as WatchWaits.
type Client struct {
	// Log takes the client's log lines. Nil: [slog.Default]. Set it before the first call.
	Log *slog.Logger

	target                string
	away                  atomic.Bool // It was said that the broker cannot be reached.
	waits, calls, streams line
}

// NewClient makes a client for the broker at target: host:port, http://host:port, or a target of grpc-go such as dns:///name:port. It
// connects when the first call needs it. Options come after the client's own, so they can replace them, for example the credentials:
// without any the connection is plain text.
func NewClient(target string, options ...grpc.DialOption) (*Client, error) {
	target, err := address(target)
	if err != nil {
		return nil, err
	}
	options = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// Servers punish pings that come more often than every five minutes, or without a call.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 330 * time.Second, Timeout: 20 * time.Second}),
		// Wider than the details of any refusal, and than what proxies add to them.
		grpc.WithMaxHeaderListSize(64 << 10),
		// Of a fixed size, since grpc-go measures with pings of its own otherwise; wide, since one slow stream must not stall the others.
		grpc.WithStaticStreamWindowSize(2 << 20),
		grpc.WithStaticConnWindowSize(64 << 20),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(64<<20)),
		// A jitter of 1 spreads from nothing to twice the delay: full jitter below 250 ms, 500 ms and so on. Up to 8 s, since grpc-go
		// goes on dialling behind our tries, and a call must meet some of its dials within its patience.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: backoffBase / 2, Multiplier: 2, Jitter: 1, MaxDelay: 4 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
	}, options...)
	dial := func() (*grpc.ClientConn, error) { return grpc.NewClient(target, options...) }
	c := &Client{target: target, waits: line{dial: dial}, calls: line{dial: dial}, streams: line{dial: dial}}
	conn, err := c.calls.take()
	if err != nil {
		return nil, err
	}
	c.calls.give(conn)
	return c, nil
}

// address checks where a broker is, before anything waits for it in vain.
func address(target string) (string, error) {
	plain := strings.TrimSuffix(strings.TrimPrefix(target, "http://"), "/")
	if strings.Contains(plain, ":/") && !strings.HasPrefix(plain, "https:") {
		return target, nil
	}
	host, port, err := net.SplitHostPort(plain)
	if number, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || host == "" || number == 0 {
		return "", fmt.Errorf("reattach: %q is no address of a broker; host:port or http://host:port is expected", target)
	}
	return plain, nil
}

// Close ends all connections. Waits that are followed end with [ErrClosed]; in the broker they stay as they are.
func (c *Client) Close() {
	for _, l := range []*line{&c.waits, &c.calls, &c.streams} {
		l.close()
	}
}

// Invoke makes a call that has one answer, and repeats it while the broker cannot be reached: for up to 30 s, which never cuts a try that
// has begun (15 s at most). Every call of the contract is safe to repeat; an OpenWait without a request id gets one.
//
// Errors: a [*Refusal], wrapped where it is no verdict and the patience is over; the context's error.
func (c *Client) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	return c.invoke(ctx, patience, method, request, reply, options...)
}

func (c *Client) invoke(
	ctx context.Context, patience time.Duration, method string, request, reply any, options ...grpc.CallOption,
) error {
	if open, ok := request.(*v1.OpenWaitRequest); ok && open.GetRequestId() == "" {
		open = proto.CloneOf(open)
		open.RequestId = newRequestID()
		request = open
	}
	return c.patiently(ctx, &c.calls, patience, func() error {
		conn, err := c.calls.take()
		if err != nil {
			return err
		}
		defer c.calls.give(conn)
		try, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		if err = conn.Invoke(try, method, request, reply, options...); err == nil {
			return nil
		}
		// It was the time of this try that ran out, not the caller's.
		if try.Err() != nil && ctx.Err() == nil {
			c.calls.suspect(conn)
		}
		return refusalOf(err)
	})
}

// NewStream begins a stream as it is: nothing is repeated and nothing attached to again. It implements [grpc.ClientConnInterface].
func (c *Client) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	conn, err := c.streams.take()
	if err != nil {
		return nil, err
	}
	defer c.streams.give(conn)
	return conn.NewStream(ctx, desc, method, options...)
}

// patiently makes tries until one succeeds, is refused, or patience has passed at the end of one.
func (c *Client) patiently(ctx context.Context, l *line, patience time.Duration, try func() error) error {
	begun, n := time.Now(), 0
	for {
		err := try()
		if err == nil {
			c.away.Store(false)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.IsVerdict() {
			return err
		}
		left := patience - time.Since(begun)
		if left <= 0 {
			took := time.Since(begun).Round(time.Second)
			return fmt.Errorf("the broker at %s cannot be reached (tried for %v; is it running?): %w", c.target, took, refusal)
		}
		if scolds, _ := refusal.scolds(); !scolds && c.away.CompareAndSwap(false, true) {
			c.log().Warn("the broker cannot be reached; trying again", "broker", c.target, "cause", refusal.Error())
		}
		// The last try is made when patience ends, not given up because its delay would be longer.
		if err := sleep(ctx, min(c.delay(l, refusal, &n), left)); err != nil {
			return err
		}
	}
}

// delay says how long to wait before the try number n, and counts it.
func (c *Client) delay(l *line, refusal *Refusal, n *int) time.Duration {
	scolds, hungUp := refusal.scolds()
	if scolds {
		*n = max(*n, restrainedTry)
	}
	delay := jitter(*n) + askedFor(refusal.RetryDelay)
	*n++
	if scolds {
		var first bool
		if delay, first = l.restrain(delay, hungUp); first {
			c.log().Warn("the broker, or a proxy, asks for restraint", "cause", refusal.Error())
		}
	}
	return delay
}

func (c *Client) log() *slog.Logger {
	if c.Log != nil {
		return c.Log
	}
	return slog.Default()
}

// askedFor is how much of a delay that a server asks for is granted.
func askedFor(d time.Duration) time.Duration { return max(0, min(d, longestRetryDelay)) }

// jitter spreads try number n over all of its bound: all clients of a broker lose their streams in one moment, and must not come back so.
func jitter(n int) time.Duration {
	return rand.N(min(backoffCap, backoffBase<<min(n, 16)))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newRequestID() string { return uuid.Must(uuid.NewV7()).String() }

// line is one connection, and the one that takes its place where it fell silent.
type line struct {
	dial func() (*grpc.ClientConn, error)

	mu      sync.Mutex
	current *conn
	stale   map[*conn]bool // Those that fell silent, until their last stream has ended.
	closed  bool
	scolded time.Time // When a server asked for restraint last.
	until   time.Time // When those come back whose connection a server ended over it.
}

type conn struct {
	*grpc.ClientConn
	users int
}

func (l *line) take() (*conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	if l.current == nil {
		dialled, err := l.dial()
		if err != nil {
			return nil, err
		}
		l.current = &conn{ClientConn: dialled}
	}
	l.current.users++
	return l.current, nil
}

func (l *line) give(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.users--; l.stale[c] && c.users == 0 {
		delete(l.stale, c)
		go c.Close() // It may take seconds, on a connection that swallows what is written.
	}
}

// suspect puts another connection in the place of one that fell silent: it would swallow the next stream too. What still runs there may
// end there. A connection that never came about swallows nothing: then suspect returns false.
func (l *line) suspect(c *conn) bool {
	if c.GetState() != connectivity.Ready {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == c {
		if l.stale == nil {
			l.stale = map[*conn]bool{}
		}
		l.current, l.stale[c] = nil, true
	}
	return true
}

// restrain returns the delay after a scolding, and whether it is the first one. All that a server cut by hanging up wait as long as the
// one that met it first: else the luckiest of many would bring the connection back in no time.
func (l *line) restrain(delay time.Duration, hungUp bool) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	first := now.Sub(l.scolded) > calmAgain
	l.scolded = now
	if !hungUp {
		return delay, first
	}
	if now.After(l.until) {
		l.until = now.Add(delay)
	}
	return l.until.Sub(now), first
}

func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.current != nil {
		l.current.Close()
	}
	for c := range l.stale {
		go c.Close()
	}
}

// Wait is a wait that is followed until its outcome by a goroutine of its own.
type Wait struct {
	token      Token
	opened     *v1.Opened
	reattached atomic.Int64
	ended      chan struct{}
	outcome    *v1.Outcome // These two are set before ended is closed.
	err        error
}

// Token returns the wait's token. A secret.
func (w *Wait) Token() Token { return w.token }

// ID returns the wait's public name.
func (w *Wait) ID() string { return w.opened.GetWaitId() }

// Opened returns what the wait was when it was first attached to, without its token.
func (w *Wait) Opened() *v1.Opened { return w.opened }

// Reattached returns how many times the wait was attached to again.
func (w *Wait) Reattached() int { return int(w.reattached.Load()) }

// Outcome waits for the outcome, whatever it is, and gives the same one each time: its Result is never nil. Act on it idempotently, by
// the wait's id.
//
// Errors: a [*Refusal] if the broker no longer knows the wait; [ErrProtocol]; [ErrClosed]; the error of ctx, or of the context that the
// wait was opened with. A broker that cannot be reached is no error: the wait goes on.
func (w *Wait) Outcome(ctx context.Context) (*v1.Outcome, error) {
	select {
	case <-w.ended:
		return w.outcome, w.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Open opens a wait, or re-opens it by its key, and follows it until its outcome or until ctx ends. It returns once the wait is durable.
// The end of ctx detaches and nothing more: the wait stays as it is. A spec without timeout and no_timeout means no_timeout.
//
// Errors as those of [Client.Invoke].
func (c *Client) Open(ctx context.Context, spec *v1.WaitSpec) (*Wait, error) {
	return c.follow(ctx, opening(openRequest(spec)))
}

// Attach follows a wait by its token, in any state, and never opens one. Otherwise as [Client.Open].
func (c *Client) Attach(ctx context.Context, token Token) (*Wait, error) {
	return c.follow(ctx, attaching(token))
}

// WaitFor opens a wait, asks, and returns its outcome, whatever it is.
//
// ask hands token and question on to whoever can answer. It runs beside the open stream, once, and only for a wait that is pending and was
// not asked before; its context ends when the outcome arrives meanwhile. Key what it sends on the token: after a crash it may be sent again.
// When ask returns nil the wait is marked asked. An ask that knows the answer calls Resolve like anybody else, and the recorded outcome
// counts: an ALREADY_SETTLED that it returns is no failure.
//
// Errors: [*AskError]; the context's error, after which a wait without a key was withdrawn, since nobody could find it again, and one with a
// key lives on; those of [Client.Open] and [Wait.Outcome].
func (c *Client) WaitFor(
	ctx context.Context, spec *v1.WaitSpec, ask func(ctx context.Context, wait *Wait) error,
) (*v1.Outcome, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	following, detach := context.WithCancel(ctx)
	defer detach()
	request := openRequest(spec)
	wait, err := c.follow(following, opening(request))
	if err == nil {
		if err = c.ask(ctx, wait, ask); err == nil {
			var outcome *v1.Outcome
			if outcome, err = wait.Outcome(ctx); err == nil {
				return outcome, nil
			}
		}
	}
	if spec.GetKey() != "" {
		return nil, err
	}
	if ctx.Err() != nil {
		shielded, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		if _, failed := c.withdraw(shielded, request, "The worker was cancelled."); failed != nil {
			c.log().Debug("a wait whose worker was cancelled could not be withdrawn", "cause", failed)
		}
		return nil, err
	}
	if wait != nil && errors.As(err, new(*AskError)) {
		// An answer that was recorded before the ask failed counts like one that cut it short.
		outcome, failed := c.withdraw(ctx, request, "The ask failed.")
		if failed == nil && outcome.GetCancelled() == nil {
			return outcome, nil
		}
	}
	return nil, err
}

func (c *Client) ask(ctx context.Context, wait *Wait, ask func(context.Context, *Wait) error) error {
	if wait.opened.GetAsked() {
		return nil
	}
	if wait.opened.GetResumed() {
		// Opened does not tell the state, and nobody must be asked between it and the outcome that may follow.
		request := &v1.DescribeWaitRequest{Token: wait.token.Expose()}
		known, err := v1.NewResolveServiceClient(c).DescribeWait(ctx, request)
		if err != nil || known.GetWait().GetState() != v1.Wait_STATE_PENDING {
			return err
		}
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-wait.ended:
			cancel()
		case <-asking.Done():
		}
	}()
	err := ask(asking, wait)
	var refusal *Refusal
	if errors.As(err, &refusal) && refusal.Reason == "ALREADY_SETTLED" {
		return nil
	}
	failed := err != nil
	if !failed {
		// For as long as it takes: what was handed on cannot be taken back.
		request := &v1.MarkAskedRequest{Token: wait.token.Expose()}
		err = c.invoke(asking, math.MaxInt64, v1.WaitService_MarkAsked_FullMethodName, request, &v1.MarkAskedResponse{})
	}
	select {
	case <-wait.ended:
		return nil
	default:
	}
	if failed && ctx.Err() == nil {
		return &AskError{err}
	}
	return err
}

// withdraw cancels a wait, whether its opening got as far as to a token or not: the request id finds it, or makes one that ends at once.
func (c *Client) withdraw(ctx context.Context, request *v1.WaitRequest, reason string) (*v1.Outcome, error) {
	waits := v1.NewWaitServiceClient(c)
	opened, err := waits.OpenWait(ctx, &v1.OpenWaitRequest{Spec: request.GetSpec(), RequestId: request.GetRequestId()})
	if err != nil {
		return nil, err
	}
	cancelled, err := waits.CancelWait(ctx, &v1.CancelWaitRequest{Token: opened.GetOpened().GetToken(), Reason: reason})
	return checked(cancelled.GetOutcome(), err)
}

func openRequest(spec *v1.WaitSpec) *v1.WaitRequest {
	spec = proto.CloneOf(spec)
	if spec.GetExpiry() == nil {
		// Else the deadline of the stream would become the timeout of the wait.
		spec.Expiry = &v1.WaitSpec_NoTimeout{NoTimeout: true}
	}
	return &v1.WaitRequest{Spec: spec, RequestId: newRequestID()}
}

// beginning begins a stream of either kind and returns how to read it.
type beginning func(context.Context, v1.WaitServiceClient) (func() (*v1.WaitEvent, error), error)

func opening(request *v1.WaitRequest) beginning {
	return func(ctx context.Context, waits v1.WaitServiceClient) (func() (*v1.WaitEvent, error), error) {
		return reading(waits.Wait(ctx, request))
	}
}

func attaching(token Token) beginning {
	return func(ctx context.Context, waits v1.WaitServiceClient) (func() (*v1.WaitEvent, error), error) {
		target := &v1.AttachRequest_Token{Token: token.Expose()}
		return reading(waits.Attach(ctx, &v1.AttachRequest{Target: target}))
	}
}

func reading[M any, P interface {
	*M
	GetEvent() *v1.WaitEvent
}](stream grpc.ServerStreamingClient[M], err error) (func() (*v1.WaitEvent, error), error) {
	return func() (*v1.WaitEvent, error) {
		message, err := stream.Recv()
		return P(message).GetEvent(), err
	}, err
}

// follow begins a stream, with patience, and goes on with it in a goroutine.
func (c *Client) follow(ctx context.Context, start beginning) (*Wait, error) {
	var s *stream
	err := c.patiently(ctx, &c.waits, patience, func() (err error) {
		s, err = c.begin(ctx, start)
		return err
	})
	if err != nil {
		return nil, err
	}
	w := &Wait{token: NewToken(s.opened.GetToken()), opened: proto.CloneOf(s.opened), ended: make(chan struct{})}
	w.opened.Token = ""
	go func() {
		w.outcome, w.err = c.toOutcome(ctx, w, s)
		close(w.ended)
	}()
	return w, nil
}

func (c *Client) toOutcome(ctx context.Context, w *Wait, s *stream) (*v1.Outcome, error) {
	for n := 0; ; w.reattached.Add(1) {
		begun := time.Now()
		outcome, err := s.read()
		if err == nil {
			return outcome, nil
		}
		for lived := time.Since(begun) >= healthy; err != nil; lived = false {
			if err = c.pause(ctx, w, err, lived, &n); err != nil {
				return nil, err
			}
			s, err = c.begin(ctx, attaching(w.token))
		}
	}
}

// pause waits for as long as the end of a stream asks for. It returns an error where attaching again is of no use.
func (c *Client) pause(ctx context.Context, w *Wait, end error, lived bool, n *int) error {
	var planned plannedEnd
	var cut *Refusal
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(end, &planned) && lived:
		return sleep(ctx, askedFor(time.Duration(planned)))
	case errors.As(end, &planned):
		// A broker that plans short streams must not be called as fast as it can answer.
		cut = localRefusal(planned.Error())
		cut.RetryDelay = time.Duration(planned)
	case !errors.As(end, &cut) || cut.IsVerdict():
		return end
	}
	if scolds, _ := cut.scolds(); lived && !scolds {
		*n = 0
	}
	delay := c.delay(&c.waits, cut, n)
	c.log().Debug("the stream was cut; attaching again", "wait_id", w.ID(), "cause", cut.Error(), "delay", delay)
	return sleep(ctx, delay)
}

// plannedEnd is an end of a stream that is no trouble, and the delay that was asked for.
type plannedEnd time.Duration

func (plannedEnd) Error() string { return "the stream ended as planned" }

// stream is one stream that has begun.
type stream struct {
	opened   *v1.Opened
	receive  func() (*v1.WaitEvent, error)
	context  context.Context
	closing  time.Time     // When its window ends.
	silence  time.Duration // How long the next event may take,
	watchdog *time.Timer   // which gives the stream up.
	suspect  func() bool   // Says that the connection fell silent, if there was one.
	end      func()        // Lets go of all that the stream holds.
}

// begin makes one try to begin a stream. It has begun when opened has arrived.
func (c *Client) begin(ctx context.Context, start beginning) (*stream, error) {
	conn, err := c.waits.take()
	if err != nil {
		return nil, err
	}
	window := shortestWindow + rand.N(windowSpread)
	windowed, closeWindow := context.WithTimeout(ctx, window)
	living, giveUp := context.WithCancelCause(windowed)
	s := &stream{
		context:  living,
		closing:  time.Now().Add(window),
		silence:  attemptTimeout,
		watchdog: time.AfterFunc(attemptTimeout, func() { giveUp(errSilent) }),
		suspect:  func() bool { return c.waits.suspect(conn) },
	}
	s.end = func() {
		s.watchdog.Stop()
		giveUp(nil)
		closeWindow()
		c.waits.give(conn)
	}
	if s.receive, err = start(living, v1.NewWaitServiceClient(conn)); err != nil {
		err = s.cut(err)
	} else {
		s.opened, err = s.first()
	}
	if err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

func (s *stream) first() (*v1.Opened, error) {
	for {
		// Not `next`: all that comes before `opened` shares one bound of time.
		event, err := s.receive()
		if err != nil {
			return nil, s.cut(err)
		}
		switch event := event.GetEvent().(type) {
		case nil: // Of a kind that this client does not know.
		case *v1.WaitEvent_Opened:
			interval := event.Opened.GetAliveInterval().AsDuration()
			if interval <= 0 {
				interval = aliveInterval
			}
			s.silence = 2 * interval
			s.watchdog.Reset(s.silence)
			return event.Opened, nil
		case *v1.WaitEvent_Detached:
			s.drain()
			return nil, letGo(event.Detached)
		default:
			return nil, fmt.Errorf("%w: a stream that does not begin with opened", ErrProtocol)
		}
	}
}

// read reads the stream to its end, which is the outcome or the reason why there is none.
func (s *stream) read() (*v1.Outcome, error) {
	defer s.end()
	for {
		event, err := s.next()
		if err != nil {
			return nil, err
		}
		switch event := event.GetEvent().(type) {
		case *v1.WaitEvent_Outcome:
			s.drain()
			return checked(event.Outcome, nil)
		case *v1.WaitEvent_Detached:
			s.drain()
			if event.Detached.GetReason() == v1.Detached_REASON_LIFETIME {
				return nil, plannedEnd(event.Detached.GetRetryDelay().AsDuration())
			}
			return nil, letGo(event.Detached)
		}
	}
}

func (s *stream) next() (*v1.WaitEvent, error) {
	event, err := s.receive()
	if err != nil {
		return nil, s.cut(err)
	}
	s.watchdog.Reset(s.silence)
	return event, nil
}

// drain reads what may follow the last event. Giving a stream up before its trailers sends a reset, and many of them count as abuse.
func (s *stream) drain() {
	s.watchdog.Reset(endOfStream)
	for {
		if _, err := s.receive(); err != nil {
			return
		}
	}
}

// cut tells what the error means with which a stream ended.
func (s *stream) cut(err error) error {
	switch {
	case errors.Is(context.Cause(s.context), errSilent):
		if s.suspect() {
			return localRefusal("no sign of life on the stream")
		}
		return localRefusal("no connection: " + status.Convert(err).Message())
	case errors.Is(err, io.EOF):
		return localRefusal("the stream ended without an outcome")
	case status.Code(err) == codes.DeadlineExceeded && time.Until(s.closing) < healthy:
		return plannedEnd(0)
	}
	return refusalOf(err)
}

func letGo(detached *v1.Detached) *Refusal {
	refusal := localRefusal("the broker let go of the stream")
	refusal.RetryDelay = detached.GetRetryDelay().AsDuration()
	return refusal
}

// localRefusal is what the client itself found out.
func localRefusal(message string) *Refusal {
	return refusalOf(status.Error(codes.Unavailable, message))
}

// checked makes sure that an outcome is one that this client knows. What is not known is never taken for an answer.
func checked(outcome *v1.Outcome, err error) (*v1.Outcome, error) {
	if err == nil && outcome.GetResult() == nil {
		err = fmt.Errorf("%w: an outcome of an unknown kind", ErrProtocol)
	}
	if resolved := outcome.GetResolved(); err == nil && resolved != nil && resolved.GetPayloadJson() == "" && outcome.GetResultsJson() == "" {
		err = fmt.Errorf("%w: a resolved wait without its answer", ErrProtocol)
	}
	if err != nil {
		return nil, err
	}
	return outcome, nil
}
