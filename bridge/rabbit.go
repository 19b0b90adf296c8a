package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Bounds of the bridge's queue at RabbitMQ: a bridge that stands still must not fill the broker.
const (
	rabbitMessages = 100_000         // then the oldest are dropped
	rabbitAge      = 2 * time.Minute // then dropped
	rabbitPrefetch = 1_000
	rabbitBeat     = 10 * time.Second
)

// rabbitSource reads from RabbitMQ, where events go to a topic exchange, from a queue of its own that ends with the connection.
type rabbitSource struct {
	url      string
	config   amqp.Config
	name     string
	exchange string
}

func openRabbit(u *url.URL, c Celery) (Source, error) {
	given, err := parameters(u, security...)
	if err != nil {
		return nil, err
	}
	scheme, port := "amqp", "5672"
	if u.Scheme == "amqps" {
		scheme, port = "amqps", "5671"
	}
	vhost := strings.TrimPrefix(u.Path, "/")
	if vhost == "" {
		vhost = "/" // as kombu reads it
	}
	user, password := "guest", "guest"
	if u.User != nil {
		user = u.User.Username()
		password, _ = u.User.Password()
	}
	address := hostPort(u, port)
	s := &rabbitSource{
		url:      scheme + "://" + address,
		name:     scheme + "://" + address + "/" + url.PathEscape(vhost),
		exchange: c.Exchange,
		config: amqp.Config{
			SASL:       []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}},
			Vhost:      vhost,
			Heartbeat:  rabbitBeat,
			Locale:     "en_US",
			Dial:       amqp.DefaultDial(dialLimit),
			Properties: amqp.Table{"connection_name": "auditor-bridge", "product": "auditor"},
		},
	}
	if scheme == "amqps" {
		if s.config.TLSClientConfig, err = encryption(u.Hostname(), given); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// String names the server, without credentials.
func (s *rabbitSource) String() string { return s.name }

// Read consumes from a queue of its own.
func (s *rabbitSource) Read(ctx context.Context, connected func(), take func(Message)) error {
	config := s.config
	config.Dial = func(network, address string) (net.Conn, error) {
		d := net.Dialer{Timeout: dialLimit}
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return conn, conn.SetDeadline(time.Now().Add(dialLimit)) // for the handshake, after which the client clears it
	}
	connection, err := amqp.DialConfig(s.url, config)
	if err != nil {
		return refusedByRabbit(err)
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { connection.Close() })()
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	channel, err := s.channel(connection)
	if err != nil {
		return refusedByRabbit(err)
	}
	channelClosed := channel.NotifyClose(make(chan *amqp.Error, 1))
	deliveries, err := s.consume(channel)
	if err != nil {
		return refusedByRabbit(err)
	}
	connected()
	for d := range deliveries {
		take(messageOf(d))
		if err := d.Ack(false); err != nil {
			return err
		}
	}
	select {
	case err := <-closed:
		return orEnd(err)
	case err := <-channelClosed:
		return orEnd(err)
	default:
		return errConsumerEnded
	}
}

var errConsumerEnded = errors.New("the broker ended the bridge's queue")

func orEnd(err *amqp.Error) error {
	if err == nil {
		return errConsumerEnded
	}
	return err
}

// channel opens a channel on which the exchange is known to be there. Asking whether it is needs fewer rights than making it, and an
// answer that it is not ends the channel.
func (s *rabbitSource) channel(connection *amqp.Connection) (*amqp.Channel, error) {
	channel, err := connection.Channel()
	if err != nil {
		return nil, err
	}
	err = channel.ExchangeDeclarePassive(s.exchange, amqp.ExchangeTopic, true, false, false, false, nil)
	if missing := new(amqp.Error); !errors.As(err, &missing) || missing.Code != amqp.NotFound {
		return channel, err
	}
	if channel, err = connection.Channel(); err != nil {
		return nil, err
	}
	return channel, channel.ExchangeDeclare(s.exchange, amqp.ExchangeTopic, true, false, false, false, nil) // as Celery does
}

// consume makes the queue, bound to everything, and reads from it.
func (s *rabbitSource) consume(channel *amqp.Channel) (<-chan amqp.Delivery, error) {
	queue, err := channel.QueueDeclare("auditor.bridge."+strings.ToLower(rand.Text()), false, true, true, false, amqp.Table{
		amqp.QueueMaxLenArg: rabbitMessages, amqp.QueueOverflowArg: amqp.QueueOverflowDropHead, amqp.QueueMessageTTLArg: rabbitAge.Milliseconds(),
	})
	if err != nil {
		return nil, err
	}
	if err := channel.QueueBind(queue.Name, "#", s.exchange, false, nil); err != nil {
		return nil, err
	}
	if err := channel.Qos(rabbitPrefetch, 0, false); err != nil {
		return nil, err
	}
	return channel.Consume(queue.Name, "", false, true, false, false, nil)
}

func messageOf(d amqp.Delivery) Message {
	m := Message{ContentType: d.ContentType, Body: d.Body}
	if name, ok := d.Headers["compression"].(string); ok {
		m.Compression = name
	}
	return m
}

// refusedByRabbit tells the errors that credentials make.
func refusedByRabbit(err error) error {
	said := new(amqp.Error)
	if errors.As(err, &said) && (said.Code == amqp.AccessRefused || said.Code == amqp.NotAllowed) {
		return &RefusedError{errors.New("user, password, virtual host, or a right of the user: " + said.Reason)}
	}
	return err
}
