package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "example.com/abeyance/abeyancev1"
	"example.com/abeyance/internal/testbroker"
	"example.com/abeyance/reattach"
)

func TestAWorkerThatIsKilledAsksNobodyTwice(t *testing.T) {
	broker := testbroker.Start(t)
	program := filepath.Join(t.TempDir(), "worker")
	if output, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, output)
	}
	tokens := make(chan string, 10)
	resolver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var handed struct{ Token string }
		if err := json.NewDecoder(r.Body).Decode(&handed); err != nil {
			t.Error(err)
		}
		tokens <- handed.Token
	}))
	defer resolver.Close()
	worker := func() *exec.Cmd {
		return exec.Command(program, "-server", "http://"+broker.Addr, "-resolver", resolver.URL, "-order", "7", "-amount", "500")
	}
	client, err := reattach.NewClient(broker.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	resolves := v1.NewResolveServiceClient(client)

	first := worker()
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	token := <-tokens
	// Killed only once the broker knows that it asked; before, asking again with the same token is right.
	for {
		known, err := resolves.DescribeWait(t.Context(), &v1.DescribeWaitRequest{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		if known.GetWait().GetAskTime() != nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	broker.Kill()
	broker.Restart()

	answer := &v1.ResolveRequest_PayloadJson{PayloadJson: `{"approvals": {"call_1": {"kind": "tool-approved", "override_args": {"amount": 9007199254740993}}}}`}
	if _, err := resolves.Resolve(t.Context(), &v1.ResolveRequest{Token: token, Answer: answer}); err != nil {
		t.Fatal(err)
	}
	output, err := worker().Output()
	if err != nil || strings.TrimSpace(string(output)) != `approved: {"amount": 9007199254740993}` {
		t.Fatalf("%v: %s", err, output)
	}
	if len(tokens) != 0 {
		t.Fatal("asked twice")
	}
}
