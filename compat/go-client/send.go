package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
)

// Sent is a message the broker has acknowledged.
type Sent struct {
	Number   int    `json:"number"`
	Status   int    `json:"status"`
	MsgID    string `json:"msg_id"`
	OffsetID string `json:"offset_id"`
	Broker   string `json:"broker"`
	QueueID  int    `json:"queue_id"`
	Offset   int64  `json:"offset"`
	Bytes    int    `json:"bytes"`
}

type sending struct {
	common
	mode     string
	first    int
	count    int
	batch    int
	tags     string
	shards   int
	broker   string
	queue    int
	delay    int
	laterMs  int
	bytes    int
	zeros    bool
	property int
	everyMs  int
	retries  int
	compress int
}

func send(arguments []string) {
	var s sending
	flags := flag.NewFlagSet("send", flag.ExitOnError)
	s.declare(flags)
	flags.StringVar(&s.mode, "mode", "sync", "sync, async, oneway, batch, request or transaction")
	flags.IntVar(&s.first, "first", 0, "number of the first message")
	flags.IntVar(&s.count, "count", 1, "how many messages")
	flags.IntVar(&s.batch, "batch", 10, "how many messages make a batch")
	flags.StringVar(&s.tags, "tags", "", "tags, separated by commas, given in turn")
	flags.IntVar(&s.shards, "shards", 0, "send in order within each of so many sharding keys")
	flags.StringVar(&s.broker, "broker", "", "the broker to send to, with -queue")
	flags.IntVar(&s.queue, "queue", -1, "the queue to send to")
	flags.IntVar(&s.delay, "delay", 0, "delay level")
	flags.IntVar(&s.laterMs, "later-ms", 0, "deliver so much later, by the property for that")
	flags.IntVar(&s.bytes, "bytes", 0, "size of a body, if more than its number")
	flags.BoolVar(&s.zeros, "zeros", false, "fill bodies with zeros; else with noise")
	flags.IntVar(&s.property, "property", 0, "size of an extra property")
	flags.IntVar(&s.everyMs, "every-ms", 0, "pause between messages")
	flags.IntVar(&s.retries, "retries", 2, "how often the client tries again")
	flags.IntVar(&s.compress, "compress", 4096, "size from which on bodies are compressed")
	flags.Parse(arguments)

	options := []producer.Option{
		producer.WithNameServer(s.nameservers()),
		producer.WithGroupName(s.group),
		producer.WithRetry(s.retries),
		producer.WithCompressMsgBodyOverHowmuch(s.compress),
	}
	if s.accessKey != "" {
		options = append(options, producer.WithCredentials(s.credentials()))
	}
	if s.trace {
		options = append(options, producer.WithTrace(s.tracing()))
	}
	if s.mode == "transaction" {
		s.transactions(options)
		return
	}
	switch {
	case s.shards > 0:
		options = append(options, producer.WithQueueSelector(producer.NewHashQueueSelector()))
	case s.queue >= 0:
		options = append(options, producer.WithQueueSelector(producer.NewManualQueueSelector()))
	}
	p, err := rocketmq.NewProducer(options...)
	if err != nil {
		fail(err)
	}
	if err := p.Start(); err != nil {
		fail(err)
	}
	switch s.mode {
	case "sync":
		s.each(func(number int) { s.report(number, s.sync(p, s.message(number))) })
	case "async":
		s.async(p)
	case "oneway":
		s.each(func(number int) {
			if err := p.SendOneWay(context.Background(), s.message(number)); err != nil {
				say(Line{Error: err.Error(), Number: number})
			}
		})
	case "batch":
		s.batches(p)
	case "request":
		s.each(func(number int) { s.request(p, number) })
	}
	if err := p.Shutdown(); err != nil {
		fail(err)
	}
	say(Line{Stopped: true})
}

func (s *sending) message(number int) *primitive.Message {
	body := []byte(strconv.Itoa(number))
	if padding := s.bytes - len(body); padding > 0 {
		body = append(body, ' ')
		filler := make([]byte, padding-1)
		if !s.zeros {
			rand.New(rand.NewSource(int64(number))).Read(filler)
		}
		body = append(body, filler...)
	}
	m := primitive.NewMessage(s.topic, body)
	m.WithKeys([]string{"key-" + strconv.Itoa(number)})
	m.WithProperty("number", strconv.Itoa(number))
	if s.tags != "" {
		tags := strings.Split(s.tags, ",")
		m.WithTag(tags[number%len(tags)])
	}
	if s.shards > 0 {
		m.WithShardingKey("shard-" + strconv.Itoa(number%s.shards))
	}
	if s.queue >= 0 {
		m.Queue = &primitive.MessageQueue{Topic: s.topic, BrokerName: s.broker, QueueId: s.queue}
	}
	if s.delay > 0 {
		m.WithDelayTimeLevel(s.delay)
	}
	if s.laterMs > 0 {
		m.WithProperty("TIMER_DELAY_MS", strconv.Itoa(s.laterMs))
	}
	if s.property > 0 {
		m.WithProperty("large", strings.Repeat("p", s.property))
	}
	return m
}

func (s *sending) each(do func(number int)) {
	for i := 0; i < s.count; i++ {
		do(s.first + i)
		time.Sleep(time.Duration(s.everyMs) * time.Millisecond)
	}
}

type outcome struct {
	result *primitive.SendResult
	err    error
	bytes  int
}

func (s *sending) sync(p rocketmq.Producer, messages ...*primitive.Message) outcome {
	result, err := p.SendSync(context.Background(), messages...)
	return outcome{result, err, len(messages[0].Body)}
}

func (s *sending) report(number int, o outcome) {
	if o.err == nil && o.result.Status != primitive.SendOK {
		o.err = fmt.Errorf("send status %d", o.result.Status)
	}
	if o.err != nil {
		say(Line{Error: o.err.Error(), Number: number})
		return
	}
	say(Line{Sent: &Sent{
		Number:   number,
		Status:   int(o.result.Status),
		MsgID:    o.result.MsgID,
		OffsetID: o.result.OffsetMsgID,
		Broker:   o.result.MessageQueue.BrokerName,
		QueueID:  o.result.MessageQueue.QueueId,
		Offset:   o.result.QueueOffset,
		Bytes:    o.bytes,
	}})
}

func (s *sending) async(p rocketmq.Producer) {
	var pending sync.WaitGroup
	s.each(func(number int) {
		pending.Add(1)
		m := s.message(number)
		err := p.SendAsync(context.Background(),
			func(_ context.Context, result *primitive.SendResult, err error) {
				s.report(number, outcome{result, err, len(m.Body)})
				pending.Done()
			}, m)
		if err != nil {
			s.report(number, outcome{nil, err, 0})
			pending.Done()
		}
	})
	pending.Wait()
}

const patience = 3 * time.Second

func (s *sending) request(p rocketmq.Producer, number int) {
	reply, err := p.Request(context.Background(), patience, s.message(number))
	if err != nil {
		say(Line{Error: err.Error(), Number: number})
		return
	}
	say(Line{Reply: string(reply.Body), Number: number})
}

// A batch is acknowledged as a whole: the line names its first message and first offset.
func (s *sending) batches(p rocketmq.Producer) {
	for from := s.first; from < s.first+s.count; from += s.batch {
		var messages []*primitive.Message
		for number := from; number < from+s.batch && number < s.first+s.count; number++ {
			messages = append(messages, s.message(number))
		}
		s.report(from, s.sync(p, messages...))
	}
}
