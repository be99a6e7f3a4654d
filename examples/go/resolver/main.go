// Command resolver is a service that answers waits: it approves small refunds, denies huge ones, and leaves the others to people.
package main

import (
	"cmp"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"example.com/abeyance/reattach"
)

func main() {
	broker := flag.String("server", cmp.Or(os.Getenv("ABEYANCE_SERVER"), "http://127.0.0.1:2239"), "the broker, `URL`")
	listen := flag.String("listen", cmp.Or(os.Getenv("RESOLVER_LISTEN"), "127.0.0.1:8080"), "where to listen, `host:port`")
	flag.Parse()
	if err := serve(*broker, *listen); err != nil {
		slog.Error("the resolver ends", "cause", err)
		os.Exit(1)
	}
}

func serve(broker, listen string) error {
	client, err := reattach.NewClient(strings.TrimPrefix(broker, "http://"))
	if err != nil {
		return err
	}
	defer client.Close()
	// A call to the broker is repeated for up to 30 s.
	server := http.Server{
		Addr: listen, Handler: newService(client).handler(), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute,
	}
	return server.ListenAndServe()
}
