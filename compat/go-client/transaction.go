package main

import (
	"context"
	"strconv"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
)

// outcomes decides by a message's number: 0 is committed, 1 rolled back, 2 and 3 are not known at
// first and are committed and rolled back when the broker asks; and so on by fours.
type outcomes struct{}

func (outcomes) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	number, _ := strconv.Atoi(m.GetProperty("number"))
	switch number % 4 {
	case 0:
		return primitive.CommitMessageState
	case 1:
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (outcomes) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	number, _ := strconv.Atoi(m.GetProperty("number"))
	if number%4 == 2 {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

// transactions sends messages, then stays to be asked about them until its input ends.
func (s *sending) transactions(options []producer.Option) {
	p, err := rocketmq.NewTransactionProducer(outcomes{}, options...)
	if err != nil {
		fail(err)
	}
	if err := p.Start(); err != nil {
		fail(err)
	}
	for number := s.first; number < s.first+s.count; number++ {
		if _, err := p.SendMessageInTransaction(context.Background(), s.message(number)); err != nil {
			say(Line{Error: err.Error(), Number: number})
		}
	}
	say(Line{Ready: true})
	untilInputEnds()
	if err := p.Shutdown(); err != nil {
		fail(err)
	}
	say(Line{Stopped: true})
}
