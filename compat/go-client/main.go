// The official Go client, unmodified, told on its command line what to do: send, push or pull. What
// it saw leaves as JSON, one object per line on standard output; the client's own log goes to
// standard error. A consumer runs until its standard input ends, so that its parent can stop it the
// orderly way (or kill it).
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// Line is what happened once: exactly one of its first six members is set.
type Line struct {
	Sent    *Sent  `json:"sent,omitempty"`
	Got     *Got   `json:"got,omitempty"`
	Reply   string `json:"reply,omitempty"`
	Ready   bool   `json:"ready,omitempty"`
	Stopped bool   `json:"stopped,omitempty"`
	Error   string `json:"error,omitempty"`
	Number  int    `json:"number,omitempty"` // which message the error is about
}

var (
	out     = bufio.NewWriter(os.Stdout)
	outLock sync.Mutex
)

func say(line Line) {
	data, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	outLock.Lock()
	defer outLock.Unlock()
	out.Write(data)
	out.WriteByte('\n')
	out.Flush() // whoever kills this process wants to know what it saw until then
}

func fail(err error) {
	say(Line{Error: err.Error()})
	os.Exit(1)
}

func untilInputEnds() {
	io.Copy(io.Discard, os.Stdin)
}

// What all three take.
type common struct {
	nameserver string
	topic      string
	group      string
	accessKey  string
	secretKey  string
	trace      bool
}

func (c *common) declare(flags *flag.FlagSet) {
	flags.StringVar(&c.nameserver, "nameserver", "", "addresses, separated by semicolons")
	flags.StringVar(&c.topic, "topic", "", "topic")
	flags.StringVar(&c.group, "group", "", "producer or consumer group")
	flags.StringVar(&c.accessKey, "access-key", "", "sign requests with this account")
	flags.StringVar(&c.secretKey, "secret-key", "", "its secret")
	flags.BoolVar(&c.trace, "trace", false, "record what becomes of each message")
}

func (c *common) credentials() primitive.Credentials {
	return primitive.Credentials{AccessKey: c.accessKey, SecretKey: c.secretKey}
}

func (c *common) tracing() *primitive.TraceConfig {
	return &primitive.TraceConfig{
		GroupName: c.group, Access: primitive.Local, NamesrvAddrs: c.nameservers(),
	}
}

func (c *common) nameservers() primitive.NamesrvAddr {
	return strings.Split(c.nameserver, ";")
}

func main() {
	verbs := map[string]func([]string){"send": send, "push": push, "pull": pull}
	if len(os.Args) > 1 {
		if verb, known := verbs[os.Args[1]]; known {
			verb(os.Args[2:])
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: driver send|push|pull -h")
	os.Exit(2)
}
