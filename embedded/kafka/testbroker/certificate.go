package testbroker

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	caFile  = "ca.pem"
	keyFile = "broker.pem" // the broker's private key and certificates, as ssl.keystore.type=PEM wants them
)

// certify makes an authority and, issued by it, the broker's certificate for loopback. What is there already is kept.
func (b *Broker) certify() error {
	if !b.config.encrypts() {
		return nil
	}
	if _, err := os.Stat(b.CA()); err == nil {
		return nil
	}
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "testbroker authority"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(1, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	broker := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "testbroker"},
		NotBefore:    ca.NotBefore,
		NotAfter:     ca.NotAfter,
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	brokerDER, err := x509.CreateCertificate(rand.Reader, broker, ca, key.Public(), caKey)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	var store bytes.Buffer
	for _, block := range []*pem.Block{{Type: "PRIVATE KEY", Bytes: keyDER}, {Type: "CERTIFICATE", Bytes: brokerDER}, {Type: "CERTIFICATE", Bytes: caDER}} {
		if err := pem.Encode(&store, block); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(b.config.Data, keyFile), store.Bytes(), 0o600); err != nil {
		return err
	}
	return os.WriteFile(b.CA(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), 0o600)
}
