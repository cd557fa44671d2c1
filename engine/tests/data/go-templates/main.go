// Writes cases.json: what Go's own text/template makes of templates that Tamis knows too.
// Run in this folder: go run main.go > cases.json
package main

import (
	"encoding/json"
	"os"
	"strings"
	"text/template"
)

// Numbers are such that Go, which reads them as float64, prints them as they are written; keys are in order, since Go
// ranges over maps in the order of their keys.
const data = `{
  "body": "line one\nline \"two\"", "count": 7, "done": false, "empty": "", "items": [
    {"labels": ["bug", "p1"], "n": 1, "open": true, "title": "Crash"},
    {"labels": [], "n": 2, "open": false, "title": "Docs é"},
    {"labels": ["ui"], "n": 3, "open": true, "title": "Slow"}
  ],
  "list": [1, 2, 3], "matrix": [[1, 2], [3, 4]], "money": 12.5, "negative": -3, "none": [], "ok": true,
  "ratio": 0.125, "user": {"age": 36, "login": "ada", "site": "example.com"}, "void": {}, "zero": 0
}`

var templates = []string{
	`plain`,
	`{{.count}} {{.money}} {{.negative}} {{.ratio}} {{.zero}}`,
	`{{.body}}|{{.user.login}}|{{$.user.age}}`,
	`{{(index .items 1).title}} {{index .list 2}} {{index .matrix 1 0}} {{index .user "site"}}`,
	`{{if .ok}}a{{end}}{{if .done}}b{{end}}{{if .zero}}c{{end}}{{if .empty}}d{{end}}{{if .none}}e{{end}}{{if .void}}f{{end}}{{if .user}}g{{end}}`,
	`{{if .done}}1{{else}}2{{end}}{{if .done}}1{{else if .ok}}2{{else}}3{{end}}`,
	`{{if and .ok .count}}x{{end}}{{if or .done .empty "z"}}y{{end}}{{if not .done}}z{{end}}`,
	`{{and .ok .count}} {{and .done .count}} {{or .done .count}} {{or .zero .empty}}.`,
	`{{range .list}}{{.}},{{end}}`,
	`{{range $i, $e := .list}}{{if $i}}, {{end}}{{$i}}:{{$e}}{{end}}`,
	`{{range .items}}#{{.n}} {{.title}}{{if .open}} [open]{{end}}{{range .labels}} {{.}}{{else}} no labels{{end}}
{{end}}`,
	`{{range .none}}x{{else}}nothing{{end}}`,
	`{{range $k, $v := .user}}{{$k}}={{$v}};{{end}}`,
	`{{range .user}}[{{.}}]{{end}}`,
	`{{range .items}}{{if eq .n 2.0}}{{continue}}{{end}}{{.n}}{{end}}`,
	`{{range .items}}{{if eq .n 2.0}}{{break}}{{end}}{{.n}}{{end}}`,
	`{{with .user}}{{.login}} {{$.count}}{{end}}`,
	`{{with $u := .user}}{{$u.login}}{{.age}}{{end}}`,
	`{{with .empty}}x{{else}}y{{end}}{{with .empty}}x{{else with .user}}{{.login}}{{end}}`,
	`{{$x := .count}}{{$x}}{{$x = 9}}{{$x}}`,
	`{{$last := ""}}{{range .items}}{{$last = .title}}{{end}}{{$last}}`,
	`{{$x := 1}}{{if .ok}}{{$x := 2}}{{$x}}{{end}}{{$x}}`,
	`{{$x := 1}}{{if .ok}}{{$x = 2}}{{$x}}{{end}}{{$x}}`,
	`{{eq .user.login "ada"}} {{ne .user.login "ada"}} {{eq .count 7.0}} {{eq .user.login "x" "ada"}}`,
	`{{lt .count 8.0}} {{le .count 7.0}} {{gt .count 7.0}} {{ge .count 7.0}} {{lt "a" "b"}} {{gt "a" "b"}}`,
	`{{len .list}} {{len .user}} {{len .body}} {{len .none}} {{len "é"}}`,
	`{{print .count .money}}|{{print "a" "b"}}|{{print .count "b" .money}}|{{print .ok .done}}|{{println "a" .count}}`,
	`{{.list | len}} {{.user.login | printf "%s-%s" "x"}} {{.count | printf "%.1f" | len}}`,
	`{{printf "%v %v %v" .count .money .ok}} {{printf "%s" .user.login}} {{printf "%t" .ok}}`,
	`{{printf "[%8s] [%-8s] [%.2s] [%8.2s]" .user.login .user.login .user.login .user.login}}`,
	`{{printf "%.2f %.0f %8.3f %-8.1f| %08.2f %+.1f % .1f" .money .ratio .money .money .negative .money .money}}`,
	`{{printf "%.1f %.2f %.3f %.0f" 0.25 0.125 0.0625 2.5}}`,
	`{{printf "%d %5d %-5d| %05d %+d % d %x %X %#x" 42 42 42 42 42 42 255 255 255}}`,
	`{{printf "%d %05d %x" -42 -42 -255}}`,
	`{{printf "%q %q" .body "tab\there"}} {{printf "%x %X % d" "hi" "hi" 7}}`,
	`{{printf "100%%"}} {{printf "%s%%" "5"}} {{printf "%5t|%-7t|" .ok .done}}`,
	`a {{- .count -}} b {{- "x" }} c`,
	"a\n\t{{- .count -}}\n b\n{{/* comment */}}c\n{{- /* trimmed */ -}}\nd",
	"{{/* a\nb */}}x{{\n.count\n}}",
	`{{"quoted \"x\" \\ \n é"}} {{` + "`raw \\n`" + `}} {{1}} {{-2}} {{true}} {{1.5}}`,
	`{{(eq 1 1)}} {{((.user).login)}} {{index (index .items 0).labels 1}}`,
	`{{if eq (len .items) 3}}three{{end}} {{if gt (len (index .items 0).labels) 1}}many{{end}}`,
	`{{if (and .ok (not .done))}}yes{{end}}`,
	`{{range $i, $row := .matrix}}{{range $j, $cell := $row}}{{$i}}{{$j}}={{$cell}} {{end}}{{end}}`,
	`{{range .items}}{{.title}}: {{len .labels}}/{{len $.items}} {{end}}`,
	`{{ .count}}{{.count }}{{ .count }}{ { }} }`,
}

type testCase struct {
	Template string `json:"template"`
	Want     string `json:"want"`
}

func main() {
	var dot any
	if err := json.Unmarshal([]byte(data), &dot); err != nil {
		panic(err)
	}
	cases := []testCase{}
	for _, source := range templates {
		var out strings.Builder
		if err := template.Must(template.New("").Parse(source)).Execute(&out, dot); err != nil {
			panic(source + ": " + err.Error())
		}
		cases = append(cases, testCase{source, out.String()})
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(map[string]any{"data": json.RawMessage(data), "cases": cases}); err != nil {
		panic(err)
	}
}
