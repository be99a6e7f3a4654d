// Package testbroker runs the real broker for tests, and the proxy that does to connections what networks do.
package testbroker

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Root returns the root of the repository.
func Root(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	for err == nil && folder != "/" {
		if _, missing := os.Stat(filepath.Join(folder, "proto/abeyance")); missing == nil {
			return folder
		}
		folder = filepath.Dir(folder)
	}
	t.Fatalf("the root of the repository is not above the working directory: %v", err)
	return ""
}

// Binary returns the path of the broker: ABEYANCE_BIN, or what cargo builds.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("ABEYANCE_BIN"); path != "" {
		return path
	}
	path := filepath.Join(Root(t), "target/debug/abeyance")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("there is no broker; run: cargo build --bin abeyance: %v", err)
	}
	return path
}

// Broker is a broker with data of its own, whose streams tell of life every second.
type Broker struct {
	// Addr is host:port. It stays the same when the broker is started again.
	Addr string

	t       testing.TB
	folder  string
	process *exec.Cmd
}

// Start starts a broker that ends with the test.
func Start(t testing.TB) *Broker {
	t.Helper()
	b := &Broker{Addr: "127.0.0.1:0", t: t, folder: t.TempDir()}
	t.Cleanup(b.Kill)
	b.Restart()
	return b
}

// Kill ends the broker as kill -9 does.
func (b *Broker) Kill() {
	if b.process != nil {
		_ = b.process.Process.Kill()
		_ = b.process.Wait()
		b.process = nil
	}
}

// Restart starts the broker again after Kill, with the same data.
func (b *Broker) Restart() {
	b.t.Helper()
	b.process = exec.Command(Binary(b.t), "serve", "--listen", b.Addr, "--data-dir", b.folder, "--alive-interval", "1s", "--log", "warn")
	b.process.Stderr = os.Stderr
	line := firstLine(b.t, b.process)
	addr, ok := strings.CutPrefix(line, "listening on ")
	if !ok {
		b.t.Fatalf("the broker says %q", line)
	}
	b.Addr = addr
}

// Proxy stands between a client and a broker.
type Proxy struct {
	// Addr is host:port.
	Addr string

	t        testing.TB
	commands io.Writer
	mu       sync.Mutex
	changed  *sync.Cond
	events   map[string]int
}

// Proxy starts a proxy in front of the broker, which ends with the test. tests/interop/fault_proxy.py has its arguments.
func (b *Broker) Proxy(arguments ...string) *Proxy {
	b.t.Helper()
	script := filepath.Join(Root(b.t), "tests/interop/fault_proxy.py")
	process := exec.Command("python3", append([]string{script, "--target", b.Addr}, arguments...)...)
	process.Stderr = os.Stderr
	commands, err := process.StdinPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	output, err := process.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	p := &Proxy{t: b.t, commands: commands, events: map[string]int{}}
	p.changed = sync.NewCond(&p.mu)
	lines := bufio.NewScanner(output)
	var first struct{ Listen string }
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &first) != nil || first.Listen == "" {
		b.t.Fatalf("the proxy says %q", lines.Text())
	}
	p.Addr = first.Listen
	go func() {
		for lines.Scan() {
			var told struct{ Event string }
			if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
				continue
			}
			p.mu.Lock()
			p.events[told.Event]++
			p.changed.Broadcast()
			p.mu.Unlock()
		}
	}()
	return p
}

// Command gives the proxy a command and waits until it is carried out.
func (p *Proxy) Command(command string) {
	p.t.Helper()
	done := p.Count("done")
	if _, err := fmt.Fprintln(p.commands, command); err != nil {
		p.t.Fatal(err)
	}
	p.Await("done", done+1)
}

// Count tells how many events of a kind there were.
func (p *Proxy) Count(event string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events[event]
}

// Await waits until there were so many events of a kind.
func (p *Proxy) Await(event string, count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.events[event] < count {
		p.changed.Wait()
	}
}

// firstLine starts a process and returns the first line that it writes.
func firstLine(t testing.TB, process *exec.Cmd) string {
	t.Helper()
	output, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("%s ended without a word: %v", process.Path, err)
	}
	return strings.TrimSpace(line)
}
