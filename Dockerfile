# The auditor as production runs it, beside real servers: the embedded engine is not in this image.
FROM golang:1.26-trixie AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /auditor ./cmd/auditor

# The base with glibc, whose loader the program asks for.
FROM debian:trixie-slim
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /auditor /usr/local/bin/auditor
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/auditor"]
CMD ["run", "--listen", "0.0.0.0:8080"]
