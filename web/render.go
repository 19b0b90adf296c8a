package web

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"hash/fnv"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// renderer holds the parsed templates: the frame, and each page's own part with what the pages have in common.
type renderer struct {
	pages map[string]*template.Template
	files map[string]staticFile
	stamp string // changes with the static files, so that browsers may keep them
}

type staticFile struct {
	data []byte
	kind string
}

var kinds = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

func newRenderer() (*renderer, error) {
	r := &renderer{pages: map[string]*template.Template{}, files: map[string]staticFile{}}
	base, err := template.New("").Funcs(functions).ParseFS(templateFiles, "templates/frame.html", "templates/parts.html")
	if err != nil {
		return nil, fmt.Errorf("templates: %w", err)
	}
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		page := template.Must(base.Clone())
		if _, err := page.ParseFS(templateFiles, name); err != nil {
			return nil, fmt.Errorf("templates: %w", err)
		}
		r.pages[strings.TrimSuffix(path.Base(name), ".html")] = page
	}
	hash := fnv.New64a()
	err = fs.WalkDir(staticFiles, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := staticFiles.ReadFile(name)
		r.files[path.Base(name)] = staticFile{data: data, kind: kinds[path.Ext(name)]}
		_, _ = hash.Write(data)
		return err
	})
	r.stamp = strconv.FormatUint(hash.Sum64(), 36)
	return r, err
}

// part renders a page's own part, to a buffer first: a page that fails half-way is never half-sent.
func (r *renderer) part(page string, view any) (template.HTML, error) {
	var out bytes.Buffer
	if err := r.pages[page].ExecuteTemplate(&out, "main", view); err != nil {
		return "", fmt.Errorf("render %s: %w", page, err)
	}
	return template.HTML(out.String()), nil //nolint:gosec // the output of html/template, put into its frame
}

// document is a page before its frame is put around it.
type document struct {
	Title   string // of the window
	Section string // which entry of the rail it belongs to
	Page    string // name of the template
	View    any
	Status  int // 0: 200
}

// rendered is a document drawn.
type rendered struct {
	title, section string
	status         int
	main           template.HTML
}

// request is what a page may ask of the request: nothing that differs between those who share its answer.
type request struct {
	id    string // of a finding or a reject
	task  string // name of a task
	query url.Values
	path  string // with the query, as a link back to the page
}

// page answers with what load finds, shared between all who ask for the same address at about the same time.
func (s *Server) page(load func(context.Context, request) (document, error)) echo.HandlerFunc {
	return func(c echo.Context) error {
		u := c.Request().URL
		asked := request{id: c.Param("id"), task: taskOf(c), query: u.Query(), path: u.RequestURI()}
		drawn, err := ask(c.Request().Context(), s.cache, "page "+asked.path, shared, func(ctx context.Context) (rendered, error) {
			doc, err := load(ctx, asked)
			if err != nil {
				return rendered{}, err
			}
			return s.draw(doc)
		})
		if err != nil {
			return err
		}
		return s.writePage(c, drawn)
	}
}

func (s *Server) draw(doc document) (rendered, error) {
	main, err := s.renderer.part(doc.Page, doc.View)
	status := doc.Status
	if status == 0 {
		status = http.StatusOK
	}
	return rendered{title: doc.Title, section: doc.Section, status: status, main: main}, err
}

// writePage puts the frame around a page.
func (s *Server) writePage(c echo.Context, drawn rendered) error {
	frame := s.frame(c, drawn)
	var out bytes.Buffer
	if err := s.renderer.pages["frame"].ExecuteTemplate(&out, "frame", frame); err != nil {
		return fmt.Errorf("render frame: %w", err)
	}
	return c.HTMLBlob(drawn.status, out.Bytes())
}

// writeProblem answers with a page that says what is wrong. It must work when nothing else does.
func (s *Server) writeProblem(c echo.Context, p *problem) error {
	drawn, err := s.draw(document{Title: p.Title, Page: "problem", View: p, Status: p.Status})
	if err != nil {
		return err
	}
	return s.writePage(c, drawn)
}

func (s *Server) staticFile(c echo.Context) error {
	file, ok := s.renderer.files[c.Param("file")]
	if !ok || file.kind == "" {
		return notFound("There is no such file.")
	}
	if c.QueryParam("v") == s.renderer.stamp {
		c.Response().Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		c.Response().Header().Set("Cache-Control", "no-cache")
	}
	return c.Blob(http.StatusOK, file.kind, file.data)
}

// themes are what a reader can choose; the first follows the system.
var themes = []string{"auto", "light", "dark"}

const themeCookie = "auditor_theme"

func themeOf(r *http.Request) string {
	if cookie, err := r.Cookie(themeCookie); err == nil {
		for _, theme := range themes {
			if cookie.Value == theme {
				return theme
			}
		}
	}
	return themes[0]
}

// postTheme remembers the theme, and leads back to the page.
func (s *Server) postTheme(c echo.Context) error {
	if err := parsed(c); err != nil {
		return err
	}
	theme := c.FormValue("theme")
	for _, known := range themes {
		if theme == known {
			c.SetCookie(&http.Cookie{Name: themeCookie, Value: theme, Path: "/", MaxAge: int((365 * 24 * time.Hour).Seconds()),
				SameSite: http.SameSiteLaxMode, Secure: c.Request().TLS != nil})
			return c.Redirect(http.StatusSeeOther, localPath(c.FormValue("return")))
		}
	}
	return badRequest("theme: must be auto, light or dark")
}

// localPath is the path of an address of this server; anything else leads to the first page. What is given back is
// checked too, for parsing can turn an escaped slash into one that a browser takes for the beginning of a host.
func localPath(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || strings.ContainsAny(s, "\\\r\n\t") {
		return "/"
	}
	path := u.RequestURI()
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") {
		return "/"
	}
	return path
}
