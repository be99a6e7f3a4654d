package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "example.com/abeyance/abeyancev1"
	"example.com/abeyance/internal/testbroker"
	"example.com/abeyance/reattach"
)

func call(id, args string) *v1.DeferredToolCall {
	return &v1.DeferredToolCall{ToolCallId: id, ToolName: "issue_refund", ArgsJson: args, Kind: v1.DeferredToolCall_KIND_APPROVAL}
}

func TestThePolicyDecidesOnlyWhatItUnderstands(t *testing.T) {
	other := call("c", `{"amount": 1}`)
	other.ToolName = "delete_account"
	external := call("c", `{"amount": 1}`)
	external.Kind = v1.DeferredToolCall_KIND_EXTERNAL
	for _, c := range []struct {
		call *v1.DeferredToolCall
		want string
	}{
		{call("c", `{"amount": 100}`), "approved"},
		{call("c", `{"amount": 101}`), "left"},
		{call("c", `{"amount": 1000}`), "left"},
		{call("c", `{"amount": 1001}`), "denied"},
		{call("c", `{"amount": 0}`), "left"},
		{call("c", `{"amount": -5}`), "left"},
		{call("c", `{"amount": 9007199254740993}`), "denied"},
		{call("c", `{"amount": 99999999999999999999}`), "left"},
		{call("c", `{"amount": "1"}`), "left"},
		{call("c", `{"amount": 1.5}`), "left"},
		{call("c", `{}`), "left"},
		{call("c", `null`), "left"},
		{call("c", `"{\"amount\": 1}"`), "left"},
		{other, "left"},
		{external, "left"},
	} {
		got := "left"
		switch verdict(c.call).GetDecision().(type) {
		case *v1.ToolApproval_Approved:
			got = "approved"
		case *v1.ToolApproval_Denied:
			got = "denied"
		}
		if got != c.want {
			t.Errorf("%v is %s instead of %s", c.call, got, c.want)
		}
	}
}

func TestPolicyAndPeopleDecideOneWait(t *testing.T) {
	client, err := reattach.NewClient(testbroker.Start(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server := httptest.NewServer(newService(client).handler())
	defer server.Close()
	send := func(method, path, body string, into any) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(into); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode
	}

	wait, err := client.Open(t.Context(), &v1.WaitSpec{Name: "n", Question: &v1.Question{Kind: &v1.Question_Deferred{
		Deferred: &v1.DeferredToolRequests{Calls: []*v1.DeferredToolCall{
			call("small", `{"amount": 80}`), call("middle", `{"amount": 500}`), call("huge", `{"amount": 5000}`),
		}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	handed, err := json.Marshal(map[string]string{"token": wait.Token().Expose()})
	if err != nil {
		t.Fatal(err)
	}
	// A worker that dies in its ask hands the same token on again.
	for range 2 {
		var got taken
		if status := send("POST", "/waits", string(handed), &got); status != 200 || got.Decided != 2 || len(got.Left) != 1 {
			t.Fatalf("%d %+v", status, got)
		}
	}
	var left []shown
	if status := send("GET", "/waits", "", &left); status != 200 || len(left) != 1 || left[0].WaitID != wait.ID() || len(left[0].Calls) != 3 {
		t.Fatalf("%d %+v", status, left)
	}

	path := "/waits/" + wait.ID() + "/answer"
	for _, refused := range []struct {
		path, body string
		status     int
		reason     string
		field      string
	}{
		{path, `{"approvals": {"middle": "yes"}}`, 400, "INVALID_ANSWER", `approvals["middle"]`},
		{path, `{"approvals": {"middle": true}`, 400, "INVALID_JSON", "payload_json"},
		{path, `{"approvals": {"small": false}}`, 409, "ALREADY_DECIDED", ""},
		{"/waits/x/answer", `{}`, 404, "", ""},
		{"/waits", `{"token": "abey_x"}`, 404, "TOKEN_UNKNOWN", ""},
		{"/waits", `no JSON`, 400, "", ""},
	} {
		var got problem
		status := send("POST", refused.path, refused.body, &got)
		if status != refused.status || got.Reason != refused.reason || got.Message == "" {
			t.Errorf("%s: %d %+v", refused.body, status, got)
		}
		if refused.field != "" && (len(got.Violations) != 1 || got.Violations[0].Field != refused.field) {
			t.Errorf("%s: %+v", refused.body, got.Violations)
		}
	}

	var answered map[string]any
	body := `{"approvals": {"middle": {"kind": "tool-approved", "override_args": {"amount":  250.0}}}}`
	if status := send("POST", path, body, &answered); status != 200 || answered["state"] != "STATE_RESOLVED" {
		t.Fatalf("%d %v", status, answered)
	}
	outcome, err := wait.Outcome(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	approvals := outcome.GetResults().GetApprovals()
	if approvals["small"].GetApproved() == nil || approvals["huge"].GetDenied().GetMessage() != "A refund of more than 1000 is never given." ||
		!bytes.Equal([]byte(approvals["middle"].GetApproved().GetOverrideArgsJson()), []byte(`{"amount":  250.0}`)) {
		t.Fatalf("%v", outcome)
	}
	if status := send("GET", "/waits", "", &left); status != 200 || len(left) != 0 {
		t.Fatalf("%d %+v", status, left)
	}
}
