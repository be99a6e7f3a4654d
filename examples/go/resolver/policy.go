package main

import (
	"encoding/json"
	"fmt"

	v1 "example.com/abeyance/abeyancev1"
)

const (
	approvedUpTo = 100  // A refund of at most this is approved at once.
	deniedAbove  = 1000 // One above this is denied at once. What lies between is left to a person.
)

// verdict decides one tool call. It returns nil for what a person must look at: other tools, other kinds of calls, and arguments that
// are not understood. What the model wrote is nothing to trust.
func verdict(call *v1.DeferredToolCall) *v1.ToolApproval {
	var args struct {
		Amount *int64 `json:"amount"`
	}
	if call.GetKind() != v1.DeferredToolCall_KIND_APPROVAL || call.GetToolName() != "issue_refund" ||
		json.Unmarshal([]byte(call.GetArgsJson()), &args) != nil || args.Amount == nil || *args.Amount <= 0 {
		return nil
	}
	switch {
	case *args.Amount <= approvedUpTo:
		return &v1.ToolApproval{Decision: &v1.ToolApproval_Approved{Approved: &v1.ToolApproved{}}}
	case *args.Amount > deniedAbove:
		message := fmt.Sprintf("A refund of more than %d is never given.", deniedAbove)
		return &v1.ToolApproval{Decision: &v1.ToolApproval_Denied{Denied: &v1.ToolDenied{Message: &message}}}
	}
	return nil
}

// verdicts decides the calls of a question that the policy can decide, and names the others.
func verdicts(calls []*v1.DeferredToolCall) (decided *v1.DeferredToolResults, left []string) {
	decided = &v1.DeferredToolResults{Approvals: map[string]*v1.ToolApproval{}}
	for _, call := range calls {
		if v := verdict(call); v != nil {
			decided.Approvals[call.GetToolCallId()] = v
		} else {
			left = append(left, call.GetToolCallId())
		}
	}
	return decided, left
}
