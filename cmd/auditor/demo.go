package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"auditor/cmd/auditor/config"
	"auditor/cmd/auditor/shop"
	"auditor/emit"
	"auditor/event"
	"auditor/rules"
)

type demoCommand struct {
	Listen string `placeholder:"HOST:PORT" help:"Address of the pages and the API (127.0.0.1:8080)."`
	Data   string `placeholder:"DIR" help:"Directory of what is kept; a second start goes on with it (data)."`
	Seed   uint64 `default:"0" help:"Seed of the simulation; 0 picks one by chance."`
}

// Run runs everything on this machine, with the shop, until it is told to stop.
func (d demoCommand) Run(env *environment) error {
	c, err := env.load(demoDefaults, map[string]string{"listen": d.Listen, "data": d.Data})
	if err != nil {
		return err
	}
	c.Kafka.Brokers, c.ClickHouse.Addresses = nil, nil // the demo never touches a real server
	a := newApp(c, allRoles, env.logger(c.Log), newRegistry())
	if err := a.start(env.ctx); err != nil || env.ctx.Err() != nil {
		return errors.Join(err, a.stop())
	}
	select { // the address is told when there is something to see
	case <-a.prepared:
	case <-env.ctx.Done():
		return a.stop()
	case err := <-a.fatal:
		return errors.Join(err, a.stop())
	}
	client, err := emit.New(emit.Config{Brokers: a.config.Kafka.Brokers, Topic: c.Kafka.Topics[0], Logger: a.log, Emitter: "shop"})
	if err != nil {
		return errors.Join(err, a.stop())
	}
	a.onStop("emitter", client.Close)
	s := openShop(d.Seed)
	a.spawn("shop", func(ctx context.Context) error { return shop.Play(ctx, s, client.Emit) })
	fmt.Fprintf(env.stdout, "A simulated shop is at work, and now and then something goes wrong. Look at\n\n    %s\n\n"+
		"Kafka clients reach the broker at %s. Ctrl-C stops everything; what was seen stays in %s.\n\n",
		a.url(), a.broker.Addr(), c.Data)
	p := &progress{out: env.stdout, terminal: isTerminal(env), ingested: a.ingester.Status, findings: a.store.Pages().FindingCounts}
	a.spawn("progress", p.run)
	return errors.Join(a.wait(env.ctx), a.stop())
}

// demoDefaults lets the demo's troubles show within the minute, and keeps its terminal calm.
func demoDefaults(c *config.Config) {
	c.Log.Level = "warn"
	c.Embedded.KafkaListen = "127.0.0.1:0"
	c.Rules.Interval = time.Second
	c.Tasks = map[string]config.Task{"mail.send_receipt": {Rules: rules.Task{StuckAfter: shop.StuckAfter}}}
}

// openShop opens a shop whose keys no other start shares, with a seed or one by chance.
func openShop(seed uint64) *shop.Shop {
	now := time.Now()
	if seed == 0 {
		seed = uint64(now.UnixNano())
	}
	return shop.New(seed, now, strings.ToLower(rand.Text()[:5]))
}

func isTerminal(env *environment) bool {
	f, ok := env.stdout.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

type shopCommand struct {
	Brokers []string `placeholder:"HOST:PORT,..." help:"Kafka brokers; those of the configuration, if not given."`
	Topic   string   `help:"Topic; the first of the configuration, if not given."`
	Seed    uint64   `default:"0" help:"Seed of the simulation; 0 picks one by chance."`
}

// Run produces the shop's events until it is told to stop. Kafka being away is waited out.
func (s shopCommand) Run(env *environment) error {
	c, err := env.load(nil, map[string]string{"kafka.brokers": strings.Join(s.Brokers, ","), "kafka.topics": s.Topic})
	if err != nil {
		return err
	}
	log := env.logger(c.Log)
	settings, err := emitConfig(c)
	if err != nil {
		return err
	}
	settings.Logger, settings.Emitter = log, "shop"
	client, err := emit.New(settings)
	if err != nil {
		return err
	}
	log.Info("the shop is open", "brokers", c.Kafka.Brokers, "topic", settings.Topic)
	err = shop.Play(env.ctx, openShop(s.Seed), func(ctx context.Context, e event.Event) error { return client.Emit(ctx, e) })
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	return errors.Join(err, client.Close(ctx))
}
