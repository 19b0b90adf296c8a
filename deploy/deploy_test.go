// Package deploy_test checks what docker-compose.yml describes, for no engine runs where the tests do.
package deploy_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/goccy/go-yaml"

	"auditor/cmd/auditor/config"
)

const password = "chosen-by-the-operator"

// project loads docker-compose.yml as `docker compose` would, with every profile.
func project(t *testing.T, env ...string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../docker-compose.yml"}, cli.WithEnv(env), cli.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

func load(t *testing.T) *types.Project {
	t.Helper()
	p, err := project(t, "AUDITOR_PASSWORD="+password)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestServices(t *testing.T) {
	p := load(t)
	images := map[string]string{
		"kafka":      `^apache/kafka:4\.\d+\.\d+$`,
		"clickhouse": `^clickhouse/clickhouse-server:\d+\.\d+$`,
		"auditor":    `^auditor:local$`,
		"shop":       `^auditor:local$`,
		"prometheus": `^prom/prometheus:v\d+\.\d+\.\d+$`,
		"grafana":    `^grafana/grafana:\d+\.\d+\.\d+$`,
	}
	for name, image := range images {
		s, err := p.GetService(name)
		if err != nil {
			t.Errorf("no service %s", name)
			continue
		}
		if !regexp.MustCompile(image).MatchString(s.Image) {
			t.Errorf("%s runs %s, want %s", name, s.Image, image)
		}
		if monitoring := name == "prometheus" || name == "grafana"; slices.Contains(s.Profiles, "monitoring") != monitoring {
			t.Errorf("%s has the profiles %v", name, s.Profiles)
		}
		if s.HealthCheck == nil && name != "shop" {
			t.Errorf("%s has no health check", name)
		}
		if s.Restart == "" {
			t.Errorf("%s does not come back after a crash", name)
		}
	}
	if len(p.Services) != len(images) {
		t.Errorf("services are %v", p.ServiceNames())
	}
}

func TestPortsAreOnLoopback(t *testing.T) {
	for name, s := range load(t).Services {
		for _, port := range s.Ports {
			if ip, err := netip.ParseAddr(port.HostIP); err != nil || !ip.IsLoopback() {
				t.Errorf("%s publishes %s on %q", name, port.Published, port.HostIP)
			}
		}
		if s.NetworkMode == "host" || s.Privileged {
			t.Errorf("%s is not kept apart from the machine", name)
		}
	}
}

func TestNoDefaultPassword(t *testing.T) {
	if _, err := project(t); err == nil || !strings.Contains(err.Error(), "AUDITOR_PASSWORD") {
		t.Errorf("without a password: %v, want an error that names the variable", err)
	}
	p := load(t)
	for service, variable := range map[string]string{
		"clickhouse": "CLICKHOUSE_PASSWORD", "auditor": "AUDITOR_CLICKHOUSE_PASSWORD", "grafana": "GF_SECURITY_ADMIN_PASSWORD",
	} {
		if value := p.Services[service].Environment[variable]; value == nil || *value != password {
			t.Errorf("%s of %s is not the chosen one", variable, service)
		}
	}
}

func TestMountedFilesExist(t *testing.T) {
	for name, s := range load(t).Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if !v.ReadOnly {
				t.Errorf("%s may write to %s", name, v.Source)
			}
		}
	}
}

// The auditor's configuration is good, as `auditor config check` would say, and leads to the other services.
func TestAuditorsConfiguration(t *testing.T) {
	p := load(t)
	s := p.Services["auditor"]
	file := ""
	for _, v := range s.Volumes {
		if v.Target == *s.Environment["AUDITOR_CONFIG"] {
			file = v.Source
		}
	}
	getenv := func(name string) string {
		if value := s.Environment[name]; value != nil {
			return *value
		}
		return ""
	}
	c, err := config.Load(config.Source{File: file, Getenv: getenv, Flags: map[string]string{"listen": s.Command[2]}})
	if err != nil {
		t.Fatal(err)
	}
	if c.ClickHouse.Password != password || c.ClickHouse.Username != *p.Services["clickhouse"].Environment["CLICKHOUSE_USER"] {
		t.Error("the auditor does not log in to ClickHouse as ClickHouse expects")
	}
	for _, address := range append(c.Kafka.Brokers, c.ClickHouse.Addresses...) {
		if host, _, _ := strings.Cut(address, ":"); p.Services[host].Name == "" {
			t.Errorf("%s leads to no service", address)
		}
	}
	listeners := *p.Services["kafka"].Environment["KAFKA_ADVERTISED_LISTENERS"]
	if !strings.Contains(listeners, "://"+c.Kafka.Brokers[0]) || !slices.Contains(p.Services["shop"].Command, c.Kafka.Brokers[0]) {
		t.Errorf("%s is not the address that Kafka tells (%s), or not the shop's", c.Kafka.Brokers[0], listeners)
	}
}

// A dashboard or an alert that asks for a metric which nobody has is a calm line that means nothing.
func TestMetricsThatAreAskedForExist(t *testing.T) {
	var code strings.Builder
	files, err := filepath.Glob("../*/*metrics.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no metrics: %v", err)
	}
	for _, file := range files {
		code.WriteString(read(t, file))
	}
	for _, file := range []string{"grafana/dashboards/auditor.json", "alerts.yml"} {
		names := regexp.MustCompile(`auditor_[a-z_]+`).FindAllString(read(t, file), -1)
		if len(names) == 0 {
			t.Errorf("%s asks for nothing", file)
		}
		for _, name := range names {
			full := strings.TrimSuffix(name, "_bucket")
			short := strings.TrimPrefix(full, "auditor_ingest_") // whose registration gives the rest of the name once
			if !strings.Contains(code.String(), `"`+full+`"`) && !strings.Contains(code.String(), `"`+short+`"`) {
				t.Errorf("%s: nobody has %s", file, name)
			}
		}
	}
}

// Prometheus reads the alerts, and each says what happened and what to do.
func TestAlerts(t *testing.T) {
	var prometheus struct {
		Files []string `yaml:"rule_files"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "prometheus.yml")), &prometheus); err != nil {
		t.Fatal(err)
	}
	var mounted []string
	for _, v := range load(t).Services["prometheus"].Volumes {
		mounted = append(mounted, v.Target)
	}
	for _, file := range prometheus.Files {
		if !slices.Contains(mounted, file) {
			t.Errorf("%s is not mounted", file)
		}
	}
	if len(prometheus.Files) == 0 {
		t.Error("no file of rules is read")
	}
	var alerts struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Record, Expr, For string
				Labels, Annotations      map[string]string
			}
		}
	}
	if err := yaml.UnmarshalWithOptions([]byte(read(t, "alerts.yml")), &alerts, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	for _, group := range alerts.Groups {
		for _, rule := range group.Rules {
			if rule.Expr == "" || (rule.Alert == "") == (rule.Record == "") {
				t.Errorf("%s: %+v is neither an alert nor a record", group.Name, rule)
			}
			if rule.Alert != "" && (rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "") {
				t.Errorf("%s says too little: %+v", rule.Alert, rule)
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
