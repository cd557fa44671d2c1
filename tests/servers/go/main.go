// A server on the official Go SDK, over Streamable HTTP on loopback, for the tests of MCP servers behind a gateway.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Digits that a double would change.
const orders = `{"orders":[{"id":9007199254740993,"total":12.50,"customer":{"name":"Ada","email":"ada@example.com"}},` +
	`{"id":9007199254740995,"total":1.10,"customer":{"name":"Bo","email":"bo@example.com"}}]}`

func listOrders(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: orders}},
		StructuredContent: json.RawMessage(orders),
	}, nil
}

// Reports progress, if the caller asked for it, before it ends.
func ship(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if token := request.Params.GetProgressToken(); token != nil {
		for step := 1; step <= 3; step++ {
			progress := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(step), Total: 3, Message: "packing"}
			if err := request.Session.NotifyProgress(ctx, progress); err != nil {
				return nil, err
			}
			// A gateway may leave out progress that the result overtakes.
			time.Sleep(300 * time.Millisecond)
		}
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "shipped"}}}, nil
}

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	stateless := flag.Bool("stateless", false, "issue no session ids")
	flag.Parse()

	empty := &jsonschema.Schema{Type: "object"}
	server := mcp.NewServer(&mcp.Implementation{Name: "orders", Version: "1.8.0"}, nil)
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true}
	server.AddTool(&mcp.Tool{Name: "list-orders", Description: "Lists orders", InputSchema: empty, Annotations: reads}, listOrders)
	server.AddTool(&mcp.Tool{Name: "ship", Description: "Ships an order", InputSchema: empty}, ship)
	// Adding a tool notifies clients that the list has changed.
	server.AddTool(&mcp.Tool{Name: "open-returns", Description: "Adds the tool `return`", InputSchema: empty},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			server.AddTool(&mcp.Tool{Name: "return", Description: "Returns an order", InputSchema: empty}, ship)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "open"}}}, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: *stateless})
	log.Fatal(http.ListenAndServe(*address, handler))
}
