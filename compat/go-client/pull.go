package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
)

// pull reads one queue from its beginning to its end with PullFrom, or, with -poll, lets the client
// divide the queues and polls what it has fetched, acknowledging each portion.
func pull(arguments []string) {
	var c common
	flags := flag.NewFlagSet("pull", flag.ExitOnError)
	c.declare(flags)
	tags := flags.String("tags", "*", "subscription")
	broker := flags.String("broker", "", "the broker to read from, with -queue")
	queue := flags.Int("queue", 0, "the queue to read")
	from := flags.Int64("from", 0, "the offset to begin at")
	batch := flags.Int("batch", 32, "how many messages a pull may return")
	poll := flags.Bool("poll", false, "poll until the input ends")
	flags.Parse(arguments)

	p, err := rocketmq.NewPullConsumer(
		consumer.WithNameServer(c.nameservers()),
		consumer.WithGroupName(c.group),
		consumer.WithPullBatchSize(int32(*batch)),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithMaxReconsumeTimes(-1),
	)
	if err != nil {
		fail(err)
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: *tags}
	if err := p.Subscribe(c.topic, selector); err != nil {
		fail(err)
	}
	if err := p.Start(); err != nil {
		fail(err)
	}
	say(Line{Ready: true})
	if *poll {
		pollUntilInputEnds(p)
	} else {
		mq := &primitive.MessageQueue{Topic: c.topic, BrokerName: *broker, QueueId: *queue}
		pullToTheEnd(p, mq, *from, *batch)
	}
	if err := p.Shutdown(); err != nil {
		fail(err)
	}
	say(Line{Stopped: true})
}

func pullToTheEnd(p rocketmq.PullConsumer, mq *primitive.MessageQueue, offset int64, batch int) {
	for {
		result, err := p.PullFrom(context.Background(), mq, offset, batch)
		if err != nil {
			fail(err)
		}
		for _, m := range result.GetMessageExts() {
			say(Line{Got: got(m)})
		}
		switch result.Status {
		case primitive.PullFound, primitive.PullNoMsgMatched:
		default:
			fail(fmt.Errorf("pull status %d at %d", result.Status, offset))
		}
		offset = result.NextBeginOffset
		if offset >= result.MaxOffset {
			return
		}
	}
}

func pollUntilInputEnds(p rocketmq.PullConsumer) {
	ended := make(chan struct{})
	go func() {
		untilInputEnds()
		close(ended)
	}()
	for {
		select {
		case <-ended:
			return
		default:
		}
		portion, err := p.Poll(context.Background(), 100*time.Millisecond)
		if consumer.IsNoNewMsgError(err) {
			continue
		}
		if err != nil {
			fail(err)
		}
		for _, m := range portion.GetMsgList() {
			say(Line{Got: got(m)})
		}
		p.ACK(context.Background(), portion, consumer.ConsumeSuccess)
	}
}
