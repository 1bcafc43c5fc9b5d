package tipcast

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrBadSignature is what a request gets that is not from the gateway, or too old: answer 401 and do nothing.
var ErrBadSignature = errors.New("tipcast: bad signature")

// Delivery is the body of a webhook's request. A 2xx acknowledges all of its entries.
type Delivery struct {
	Type    string  `json:"type"`
	Feed    string  `json:"feed"`
	Batch   string  `json:"batch"`
	Entries []Entry `json:"entries"`
	// Test is true when an operator tries the webhook. Its entries are samples that nobody paid for: Read leaves them out.
	Test bool `json:"test"`
}

// Webhook reads deliveries (Standard Webhooks) that were signed with one of its secrets; during a change give it both.
type Webhook struct {
	keys [][]byte
	now  func() time.Time
}

// NewWebhook takes secrets as `whsec_…`.
func NewWebhook(secrets ...string) (*Webhook, error) {
	hook := &Webhook{now: time.Now}
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			return nil, errors.New("tipcast: a webhook's secret is whsec_ and base64")
		}
		hook.keys = append(hook.keys, key)
	}
	if len(hook.keys) == 0 {
		return nil, errors.New("tipcast: a webhook has at least one secret")
	}
	return hook, nil
}

// Read checks a delivery and reads it; body as it came, before anything parsed it.
func (w *Webhook) Read(header http.Header, body []byte) (*Delivery, error) {
	id, stamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if id == "" || err != nil {
		return nil, fmt.Errorf("%w: the headers of a webhook are not there", ErrBadSignature)
	}
	if age := w.now().Sub(time.Unix(seconds, 0)).Abs(); age > 5*time.Minute {
		return nil, fmt.Errorf("%w: its timestamp is %s away: it is old, or one of the two clocks is wrong", ErrBadSignature, age.Round(time.Second))
	}
	// One pass over the body for each key, whatever the header holds: a stranger writes it.
	fits, candidates := false, signaturesOf(header.Get("webhook-signature"))
	if len(candidates) == 0 {
		return nil, fmt.Errorf("%w: the headers of a webhook are not there", ErrBadSignature)
	}
	for _, key := range w.keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.", id, stamp)
		mac.Write(body)
		ours := mac.Sum(nil)
		for _, came := range candidates {
			fits = hmac.Equal(came, ours) || fits
		}
	}
	if !fits {
		return nil, fmt.Errorf("%w: none fits: the secret is another one, or the body is not as it came", ErrBadSignature)
	}
	delivery := new(Delivery)
	err = json.Unmarshal(body, delivery)
	if delivery.Test {
		delivery.Entries = nil
	}
	return delivery, err
}

// maxSignatures is how many signatures of a header are looked at; the gateway sends one for each secret that holds.
const maxSignatures = 8

// signaturesOf reads the signatures of version 1 in a header.
func signaturesOf(header string) (found [][]byte) {
	for _, piece := range strings.Fields(header) {
		if text, ours := strings.CutPrefix(piece, "v1,"); ours {
			if came, err := base64.StdEncoding.DecodeString(text); err == nil && len(came) == sha256.Size {
				found = append(found, came)
			}
		}
		if len(found) == maxSignatures {
			break
		}
	}
	return found
}

// Handler answers deliveries: 401 to what is not signed, 503 when handle fails, so that it comes again, else 204.
// A delivery may come twice, in other batches too: know each entry by its EventID, as EventStore does.
func (w *Webhook) Handler(handle func(*http.Request, *Delivery) error) http.Handler {
	return http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(answer, request.Body, 16<<20))
		if err != nil {
			http.Error(answer, "the body cannot be read", http.StatusBadRequest)
			return
		}
		delivery, err := w.Read(request.Header, body)
		switch {
		case errors.Is(err, ErrBadSignature):
			http.Error(answer, err.Error(), http.StatusUnauthorized)
		case err != nil:
			http.Error(answer, "the body is no delivery", http.StatusBadRequest)
		case handle(request, delivery) != nil:
			http.Error(answer, "not now", http.StatusServiceUnavailable)
		default:
			answer.WriteHeader(http.StatusNoContent)
		}
	})
}
