// Command gotypes prints, as JSON, what the Go types of Kubernetes' API tell and OpenAPI does not:
// which fields are left out when empty, which are pointers, what Go calls their types (decoding
// errors name those), their protobuf numbers, and which structs are embedded inline.
//
// It runs inside tools/controlplane, whose go.mod pins the modules: see
// tools/simulator_data/go_types.py.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"strings"

	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	oldextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	aggregation "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	oldaggregation "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
)

// field is one field of a struct: how JSON names it (empty: inline), Go's name of its type, the
// full name of the type that it is made of, and the rest by flags.
type field struct {
	JSON   string `json:"json"`
	Go     string `json:"go"`
	Of     string `json:"of"`
	Number int    `json:"number"`
	Flags  string `json:"flags"`
}

type described struct {
	Go     string  `json:"go"`
	Base   string  `json:"base,omitempty"`
	Custom bool    `json:"custom,omitempty"`
	Fields []field `json:"fields,omitempty"`
}

var (
	types       = map[string]described{}
	unmarshaler = reflect.TypeOf((*json.Unmarshaler)(nil)).Elem()
)

// fullName is the name that OpenAPI gives a type: the path of its package, domain reversed.
func fullName(t reflect.Type) string {
	if t.PkgPath() == "" {
		return t.String()
	}
	parts := strings.Split(t.PkgPath(), "/")
	domain := strings.Split(parts[0], ".")
	for i, j := 0, len(domain)-1; i < j; i, j = i+1, j-1 {
		domain[i], domain[j] = domain[j], domain[i]
	}
	return strings.Join(append(append(domain, parts[1:]...), t.Name()), ".")
}

// describe records a type and all that it is made of, and returns its full name.
func describe(t reflect.Type) string {
	for t.Kind() == reflect.Pointer || (t.Name() == "" && (t.Kind() == reflect.Slice || t.Kind() == reflect.Map)) {
		t = t.Elem()
	}
	name := fullName(t)
	if _, known := types[name]; known || t.PkgPath() == "" {
		return name
	}
	found := described{Go: t.String(), Custom: reflect.PointerTo(t).Implements(unmarshaler)}
	types[name] = found
	switch t.Kind() {
	case reflect.Struct:
		for i := 0; i < t.NumField(); i++ {
			if one, is := describeField(t.Field(i)); is {
				found.Fields = append(found.Fields, one)
			}
		}
	case reflect.Slice, reflect.Map:
		describe(t.Elem())
		found.Base = t.Kind().String() + " " + t.Elem().String()
	default:
		found.Base = t.Kind().String()
	}
	types[name] = found
	return name
}

func describeField(f reflect.StructField) (field, bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if !f.IsExported() || name == "-" {
		return field{}, false
	}
	t, flags := f.Type, ""
	if t.Kind() == reflect.Pointer {
		flags += "p"
		t = t.Elem()
	}
	if strings.Contains(options, "omitempty") {
		flags += "o"
	}
	if strings.Contains(options, "omitzero") {
		flags += "z"
	}
	if f.Anonymous && name == "" {
		flags += "i"
	}
	number, repeated := 0, false
	if parts := strings.Split(f.Tag.Get("protobuf"), ","); len(parts) > 2 {
		number, _ = strconv.Atoi(parts[1])
		repeated = parts[2] == "rep"
	}
	of := t
	switch {
	case t.Kind() == reflect.Map:
		flags += "m"
		of = t.Elem()
	case t.Kind() == reflect.Slice && !isBytes(t) && (t.Name() == "" || repeated):
		flags += "l"
		of = t.Elem()
	}
	made := "bytes"
	if !isBytes(of) {
		made = describe(of)
	}
	return field{JSON: name, Go: t.String(), Of: made, Number: number, Flags: flags}, true
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

func main() {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme,
		extensions.AddToScheme, oldextensions.AddToScheme,
		aggregation.AddToScheme, oldaggregation.AddToScheme,
	} {
		if err := add(all); err != nil {
			panic(err)
		}
	}
	kinds := map[string]string{}
	for kind, t := range all.AllKnownTypes() {
		if kind.Version != runtime.APIVersionInternal && kind.Kind != "WatchEvent" {
			kinds[kind.GroupVersion().String()+" "+kind.Kind] = describe(t)
		}
	}
	describe(reflect.TypeOf(meta.Status{}))
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]any{"kinds": kinds, "types": types}); err != nil {
		panic(err)
	}
}
