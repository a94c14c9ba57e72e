// Driver of the Go SDK.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type target struct {
	Transport string            `json:"transport"`
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
	Env       map[string]string `json:"env"`
	URL       string            `json:"url"`
	Headers   map[string]string `json:"headers"`
}

type request struct {
	ID     int            `json:"id"`
	Op     string         `json:"op"`
	Tool   string         `json:"tool"`
	Input  map[string]any `json:"input"`
	URI    string         `json:"uri"`
	Target int            `json:"target"`
}

type image struct {
	MimeType string `json:"mimeType"`
	Data     string `json:"data"`
}

type withHeaders map[string]string

func (headers withHeaders) RoundTrip(request *http.Request) (*http.Response, error) {
	copied := request.Clone(request.Context())
	for name, value := range headers {
		copied.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(copied)
}

type driver struct {
	session  *mcp.ClientSession
	mutex    sync.Mutex
	progress map[string][]string
	cancels  map[int]context.CancelFunc
}

func (d *driver) say(message map[string]any) {
	line, _ := json.Marshal(message)
	d.mutex.Lock()
	defer d.mutex.Unlock()
	fmt.Println(string(line))
}

func (d *driver) call(ctx context.Context, asked request) (any, error) {
	token := fmt.Sprintf("progress-%d", asked.ID)
	params := &mcp.CallToolParams{Name: asked.Tool, Arguments: asked.Input}
	params.SetProgressToken(token)
	result, err := d.session.CallTool(ctx, params)
	if err != nil {
		return nil, err
	}
	images, kinds, texts := []image{}, []string{}, []string{}
	for _, part := range result.Content {
		switch content := part.(type) {
		case *mcp.TextContent:
			kinds, texts = append(kinds, "text"), append(texts, content.Text)
		case *mcp.ImageContent:
			data := base64.StdEncoding.EncodeToString(content.Data)
			kinds, images = append(kinds, "image"), append(images, image{content.MIMEType, data})
		default:
			kinds = append(kinds, fmt.Sprintf("%T", part))
		}
	}
	fields := result.StructuredContent
	if fields == nil {
		fields = map[string]any{}
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return map[string]any{
		"isError": result.IsError, "text": strings.Join(texts, "\n"), "images": images,
		"kinds": kinds, "fields": fields, "progress": append([]string{}, d.progress[token]...),
	}, nil
}

func (d *driver) run(ctx context.Context, asked request) (any, error) {
	switch asked.Op {
	case "call":
		return d.call(ctx, asked)
	case "tools":
		listed, err := d.session.ListTools(ctx, nil)
		if err != nil {
			return nil, err
		}
		return listed.Tools, nil
	case "resources":
		listed, err := d.session.ListResources(ctx, nil)
		if err != nil {
			return nil, err
		}
		uris := []string{}
		for _, resource := range listed.Resources {
			uris = append(uris, resource.URI)
		}
		return uris, nil
	}
	read, err := d.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: asked.URI})
	if err != nil {
		return nil, err
	}
	text := ""
	for _, part := range read.Contents {
		text += part.Text
	}
	return text, nil
}

func (d *driver) answer(ctx context.Context, asked request) {
	result, err := d.run(ctx, asked)
	switch {
	case err == nil:
		d.say(map[string]any{"id": asked.ID, "result": result})
	case ctx.Err() != nil:
		d.say(map[string]any{"id": asked.ID, "cancelled": true})
	default:
		d.say(map[string]any{"id": asked.ID, "error": err.Error()})
	}
}

func connect(d *driver, wanted target) (*mcp.ClientSession, error) {
	options := &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, told *mcp.ProgressNotificationClientRequest) {
			token := fmt.Sprint(told.Params.ProgressToken)
			d.mutex.Lock()
			defer d.mutex.Unlock()
			d.progress[token] = append(d.progress[token], told.Params.Message)
		},
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "go-driver", Version: "1.0.0"}, options)
	if wanted.Transport == "stdio" {
		command := exec.Command(wanted.Command, wanted.Args...)
		command.Env = []string{}
		command.Stderr = os.Stderr
		for name, value := range wanted.Env {
			command.Env = append(command.Env, name+"="+value)
		}
		return client.Connect(context.Background(), &mcp.CommandTransport{Command: command}, nil)
	}
	transport := &mcp.StreamableClientTransport{
		Endpoint:   wanted.URL,
		HTTPClient: &http.Client{Transport: withHeaders(wanted.Headers)},
	}
	return client.Connect(context.Background(), transport, nil)
}

func main() {
	var wanted target
	if err := json.Unmarshal([]byte(os.Args[1]), &wanted); err != nil {
		panic(err)
	}
	d := &driver{progress: map[string][]string{}, cancels: map[int]context.CancelFunc{}}
	session, err := connect(d, wanted)
	if err != nil {
		panic(err)
	}
	d.session = session
	d.say(map[string]any{"id": 0, "result": session.InitializeResult().ProtocolVersion})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64*1024*1024)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		if asked.Op == "cancel" {
			d.cancels[asked.Target]()
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		d.cancels[asked.ID] = cancel
		go d.answer(ctx, asked)
	}
	session.Close()
}
