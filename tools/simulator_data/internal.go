// Command internal prints, as JSON, the Go types that kube-apiserver validates: refusals show values
// of these types, whose fields are named and ordered otherwise than those of the API.
//
// It runs inside tools/controlplane, whose go.mod pins the modules: see
// tools/simulator_data/internal_types.py.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"unicode"

	apps1 "k8s.io/api/apps/v1"
	batch1 "k8s.io/api/batch/v1"
	core1 "k8s.io/api/core/v1"
	policy1 "k8s.io/api/policy/v1"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/policy"
)

// row is one field: how it is shown, its name in the API, what an empty one is shown as (nothing:
// the empty struct), the type that it or its items are made of (nothing: shown as it is), and
// whether it is left out when it is empty.
type row [5]string

var (
	types     = map[string][]row{}
	marshaler = reflect.TypeOf((*json.Marshaler)(nil)).Elem()
)

// of finds the struct that a type or its items are, nil if they are shown as they are.
func of(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		return nil
	}
	return t
}

func empty(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return `""`
	case reflect.Bool:
		return "false"
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return "null"
	case reflect.Struct:
		if of(t) != nil {
			return ""
		}
		zero, err := json.Marshal(reflect.New(t).Interface())
		if err != nil {
			panic(err)
		}
		return string(zero)
	}
	return "0"
}

func describe(shown, api reflect.Type) string {
	name := shown.String()
	if _, known := types[name]; !known {
		types[name] = nil
		types[name] = rows(shown, api)
	}
	return name
}

func rows(shown, api reflect.Type) []row {
	var found []row
	for i := 0; i < shown.NumField(); i++ {
		f := shown.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		twin, same := api.FieldByName(f.Name)
		if f.Anonymous && tag == "" {
			inner := api
			if same {
				inner = twin.Type
			}
			found = append(found, rows(f.Type, inner)...)
			continue
		}
		first := []rune(f.Name)
		first[0] = unicode.ToLower(first[0])
		inAPI := string(first)
		if same {
			inAPI, _, _ = strings.Cut(twin.Tag.Get("json"), ",")
		}
		one := row{f.Name, inAPI, empty(f.Type)}
		if tag != "" {
			one[0] = tag
		}
		if made := of(f.Type); made != nil {
			other := made
			if same && of(twin.Type) != nil {
				other = of(twin.Type)
			}
			one[3] = describe(made, other)
		}
		if strings.Contains(options, "omit") {
			one[4] = "o"
		}
		found = append(found, one)
	}
	return found
}

func main() {
	for _, pair := range [][2]any{
		{core.PodSpec{}, core1.PodSpec{}},
		{core.PodTemplateSpec{}, core1.PodTemplateSpec{}},
		{core.PersistentVolumeSource{}, core1.PersistentVolumeSource{}},
		{batch.JobSpec{}, batch1.JobSpec{}},
		{apps.DeploymentStrategy{}, apps1.DeploymentStrategy{}},
		{apps.DaemonSetUpdateStrategy{}, apps1.DaemonSetUpdateStrategy{}},
		{apps.StatefulSetUpdateStrategy{}, apps1.StatefulSetUpdateStrategy{}},
		{policy.PodDisruptionBudgetSpec{}, policy1.PodDisruptionBudgetSpec{}},
	} {
		describe(reflect.TypeOf(pair[0]), reflect.TypeOf(pair[1]))
	}
	if err := json.NewEncoder(os.Stdout).Encode(types); err != nil {
		panic(err)
	}
}
