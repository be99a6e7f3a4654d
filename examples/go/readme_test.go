package examples_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/abeyance/internal/testbroker"
)

// block returns the first block of the README in a language.
func block(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```"+language+"\n")
	code, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatalf("the README has no block of %s", language)
	}
	return code
}

func freeAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestTheStartOfTheReadmeRunsAsItStands(t *testing.T) {
	folder := t.TempDir()
	broker, err := filepath.Abs(testbroker.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(broker, filepath.Join(folder, "abeyance")); err != nil {
		t.Fatal(err)
	}
	listen, resolver := freeAddr(t), freeAddr(t)
	script := exec.Command("bash", "-euc", block(t, "sh"))
	script.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), "XDG_DATA_HOME="+t.TempDir(),
		"ABEYANCE_LISTEN="+listen, "ABEYANCE_SERVER=http://"+listen, "RESOLVER_LISTEN="+resolver, "RESOLVER_URL=http://"+resolver)
	script.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A file, since what runs in the background holds it open beyond the script.
	output, err := os.Create(filepath.Join(folder, "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	script.Stdout, script.Stderr = output, output
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-script.Process.Pid, syscall.SIGKILL) }()
	watchdog := time.AfterFunc(2*time.Minute, func() { _ = script.Process.Kill() })
	defer watchdog.Stop()
	ended := script.Wait()
	text, err := os.ReadFile(output.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`approved: {"order": 1, "amount": 80}`, "denied: A refund of more than 1000 is never given."} {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("it does not print %q", line)
		}
	}
	if ended != nil || t.Failed() {
		t.Fatalf("%v:\n%s", ended, text)
	}
}

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	program := `package main

import (
	"context"

	"example.com/abeyance/abeyancev1"
	"example.com/abeyance/reattach"
)

var (
	spec   *abeyancev1.WaitSpec
	send   func(context.Context, string, string) error
	use    func(string)
	giveUp func(*abeyancev1.Outcome)
)

func work(ctx context.Context) error {
` + block(t, "go") + `	return err
}

func main() { _ = work }
`
	path := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(path, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("go", "build", "-o", os.DevNull, path).CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, output)
	}
}
