package testbroker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrNoJars says that Apache Kafka is nowhere to be found, and how to get it.
var ErrNoJars = errors.New("the jars of Apache Kafka are missing: run `make testbroker`, or name a copy in AUDITOR_KAFKA_JARS")

// ErrNoJava says that there is no Java to run it with.
var ErrNoJava = errors.New("java is missing, which runs Apache Kafka: install a JDK, version 17 or later (openjdk-17-jdk-headless)")

// Jars finds the directory with Apache Kafka's jars: the one that AUDITOR_KAFKA_JARS names, or what `make testbroker` has
// brought to embedded/kafka/testbroker/jars in the working directory or one above. It gives ErrNoJars if there is none; a
// directory that was named but has none is an error of its own.
func Jars() (dir string, err error) {
	if named := os.Getenv("AUDITOR_KAFKA_JARS"); named != "" {
		dir, err := filepath.Abs(named)
		if err != nil || !holdsKafka(dir) {
			return "", fmt.Errorf("AUDITOR_KAFKA_JARS names %s, which holds no jar of Apache Kafka's server", named)
		}
		return dir, nil
	}
	if dir, err = below("jars", holdsKafka); err == nil && dir == "" {
		err = ErrNoJars
	}
	return dir, err
}

// Available says what this machine lacks to run a broker, nil when it lacks nothing.
func Available() error {
	_, java := Java()
	_, jars := Jars()
	return errors.Join(java, jars)
}

func holdsKafka(dir string) bool {
	found, err := filepath.Glob(filepath.Join(dir, "kafka_2.13-*.jar"))
	return err == nil && len(found) > 0
}

// Java finds the program that runs Java: JAVA_HOME's, or the one in the path. It gives ErrNoJava if there is none.
func Java() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		if path, err := exec.LookPath(filepath.Join(home, "bin", "java")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("java")
	if err != nil {
		return "", ErrNoJava
	}
	return path, nil
}

// Ports are taken from below those that systems give to outgoing connections: one of these could take a broker's port while
// it is down.
const (
	lowestPort  = 20000
	highestPort = 32000
)

// freePorts finds n ports that nobody listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err != nil {
			continue
		}
		defer l.Close() // not before the last is found, so that no two are the same
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports from %d to %d", n, lowestPort, highestPort)
}

// ErrNoPython says that there is no Python with librdkafka.
var ErrNoPython = errors.New("confluent-kafka for Python is missing: run `make testbroker`")

// Python finds a Python that has the package confluent_kafka, which `make testbroker` brings to
// embedded/kafka/testbroker/venv in the working directory or one above. It gives ErrNoPython if there is none.
func Python() (string, error) {
	dir, err := below("venv", func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "complete"))
		return err == nil
	})
	if err != nil {
		return "", err
	}
	if dir == "" {
		return "", ErrNoPython
	}
	return filepath.Join(dir, "bin", "python"), nil
}

// below looks for embedded/kafka/testbroker/name in the working directory and those above, empty when there is none that is
// good.
func below(name string, good func(dir string) bool) (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for above := start; ; above = filepath.Dir(above) {
		if dir := filepath.Join(above, "embedded", "kafka", "testbroker", name); good(dir) {
			return dir, nil
		}
		if above == filepath.Dir(above) {
			return "", nil
		}
	}
}
