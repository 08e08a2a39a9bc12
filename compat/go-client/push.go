package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"flag"
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
)

// Got is a message as a consumer sees it.
type Got struct {
	Number     int    `json:"number"`
	Topic      string `json:"topic"`
	Broker     string `json:"broker"`
	QueueID    int    `json:"queue_id"`
	Offset     int64  `json:"offset"`
	MsgID      string `json:"msg_id"`
	OffsetID   string `json:"offset_id"`
	Tags       string `json:"tags"`
	Keys       string `json:"keys"`
	Shard      string `json:"shard"`
	Reconsumed int    `json:"reconsumed"`
	Bytes      int    `json:"bytes"`
	SHA1       string `json:"sha1"`
	Compressed bool   `json:"compressed"`
	BornMs     int64  `json:"born_ms"`
	StoredMs   int64  `json:"stored_ms"`
	SeenMs     int64  `json:"seen_ms"`
	Origin     string `json:"origin"`
}

func got(m *primitive.MessageExt) *Got {
	number, err := strconv.Atoi(m.GetProperty("number"))
	if err != nil {
		number = -1
	}
	sum := sha1.Sum(m.Body)
	g := &Got{
		Number:     number,
		Topic:      m.Topic,
		Offset:     m.QueueOffset,
		MsgID:      m.MsgId,
		OffsetID:   m.OffsetMsgId,
		Tags:       m.GetTags(),
		Keys:       m.GetKeys(),
		Shard:      m.GetShardingKey(),
		Reconsumed: int(m.ReconsumeTimes),
		Bytes:      len(m.Body),
		SHA1:       hex.EncodeToString(sum[:]),
		Compressed: m.SysFlag&primitive.FlagCompressed != 0,
		BornMs:     m.BornTimestamp,
		StoredMs:   m.StoreTimestamp,
		SeenMs:     time.Now().UnixNano() / int64(time.Millisecond),
		Origin:     m.GetProperty(primitive.PropertyOriginMessageId),
	}
	if m.Queue != nil {
		g.Broker, g.QueueID = m.Queue.BrokerName, m.Queue.QueueId
	}
	return g
}

func push(arguments []string) {
	var c common
	flags := flag.NewFlagSet("push", flag.ExitOnError)
	c.declare(flags)
	orderly := flags.Bool("orderly", false, "consume each queue in order")
	broadcast := flags.Bool("broadcast", false, "every consumer gets every message")
	tags := flags.String("tags", "*", "subscription")
	sql := flags.String("sql", "", "an expression to choose messages by, instead of tags")
	failures := flags.Int("failures", 0, "how often a message is sent back; -1: always")
	maxReconsume := flags.Int("max-reconsume", -1, "how often a message may be sent back")
	last := flags.Bool("last", false, "a new group begins at the end")
	replies := flags.Bool("replies", false, "answer each message, as one who was asked")
	workMs := flags.Int("work-ms", 0, "how long a message keeps a consumer busy")
	flags.Parse(arguments)

	options := []consumer.Option{
		consumer.WithNameServer(c.nameservers()),
		consumer.WithGroupName(c.group),
		consumer.WithConsumerOrder(*orderly),
		consumer.WithMaxReconsumeTimes(int32(*maxReconsume)),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}
	if c.accessKey != "" {
		options = append(options, consumer.WithCredentials(c.credentials()))
	}
	if c.trace {
		options = append(options, consumer.WithTrace(c.tracing()))
	}
	if *last {
		options = append(options, consumer.WithConsumeFromWhere(consumer.ConsumeFromLastOffset))
	}
	if *broadcast {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	p, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		fail(err)
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: *tags}
	if *sql != "" {
		selector = consumer.MessageSelector{Type: consumer.SQL92, Expression: *sql}
	}
	again := consumer.ConsumeRetryLater
	if *orderly {
		again = consumer.SuspendCurrentQueueAMoment
	}
	var answers rocketmq.Producer
	if *replies {
		answers = c.answers()
	}
	handle := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		result := consumer.ConsumeSuccess
		for _, m := range messages {
			say(Line{Got: got(m)})
			if answers != nil {
				answer(answers, m)
			}
			time.Sleep(time.Duration(*workMs) * time.Millisecond)
			if *failures < 0 || int(m.ReconsumeTimes) < *failures {
				result = again
			}
		}
		return result, nil
	}
	if err := p.Subscribe(c.topic, selector, handle); err != nil {
		fail(err)
	}
	if err := p.Start(); err != nil {
		fail(err)
	}
	say(Line{Ready: true})
	untilInputEnds()
	if err := p.Shutdown(); err != nil {
		fail(err)
	}
	say(Line{Stopped: true})
}

func (c *common) answers() rocketmq.Producer {
	p, err := rocketmq.NewProducer(
		producer.WithNameServer(c.nameservers()), producer.WithGroupName(c.group+"-answers"),
	)
	if err != nil {
		fail(err)
	}
	if err := p.Start(); err != nil {
		fail(err)
	}
	return p
}

func answer(p rocketmq.Producer, m *primitive.MessageExt) {
	body := append([]byte("reply to "), m.Body...)
	reply, err := consumer.CreateReplyMessage(m, body)
	if err == nil {
		reply.Body = body // which this version of the client forgets
		_, err = p.SendSync(context.Background(), reply)
	}
	if err != nil {
		say(Line{Error: err.Error()})
	}
}
