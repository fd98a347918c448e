package main

import (
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

// SiteSpec is what a Site is to be.
type SiteSpec struct {
	Text     string `json:"text"`
	Replicas int32  `json:"replicas,omitempty"`
}

// SiteStatus is what a Site is.
type SiteStatus struct {
	ReadyReplicas      int32 `json:"readyReplicas"`
	ObservedGeneration int64 `json:"observedGeneration"`
}

// Site is a web page that some pods serve.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SiteSpec   `json:"spec"`
	Status            SiteStatus `json:"status,omitempty"`
}

// SiteList is a list of Sites.
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Site `json:"items"`
}

// OldSite is a Site of version v1alpha1, which has its text in another field.
type OldSite struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Message           string     `json:"message"`
	Replicas          int32      `json:"replicas,omitempty"`
	Status            SiteStatus `json:"status,omitempty"`
}

// Hub marks the version that others are converted to and from.
func (*Site) Hub() {}

// ConvertTo converts to the version that is stored.
func (o *OldSite) ConvertTo(hub conversion.Hub) error {
	site, ok := hub.(*Site)
	if !ok {
		return fmt.Errorf("not a Site: %T", hub)
	}
	site.ObjectMeta = o.ObjectMeta
	site.Spec = SiteSpec{Text: o.Message, Replicas: o.Replicas}
	site.Status = o.Status
	return nil
}

// ConvertFrom converts from the version that is stored.
func (o *OldSite) ConvertFrom(hub conversion.Hub) error {
	site, ok := hub.(*Site)
	if !ok {
		return fmt.Errorf("not a Site: %T", hub)
	}
	o.ObjectMeta = site.ObjectMeta
	o.Message, o.Replicas, o.Status = site.Spec.Text, site.Spec.Replicas, site.Status
	return nil
}

// DeepCopyObject implements runtime.Object.
func (s *Site) DeepCopyObject() runtime.Object {
	copied := *s
	s.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

// DeepCopyObject implements runtime.Object.
func (o *OldSite) DeepCopyObject() runtime.Object {
	copied := *o
	o.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

// DeepCopyObject implements runtime.Object.
func (l *SiteList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = make([]Site, len(l.Items))
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopyObject().(*Site)
	}
	return &copied
}

// addSites makes the kinds known; each test of the suite has a group of its own.
func addSites(scheme *runtime.Scheme) {
	group := os.Getenv("SITES_GROUP")
	stored := schema.GroupVersion{Group: group, Version: "v1"}
	old := schema.GroupVersion{Group: group, Version: "v1alpha1"}
	scheme.AddKnownTypes(stored, &Site{}, &SiteList{})
	scheme.AddKnownTypeWithName(old.WithKind("Site"), &OldSite{})
	metav1.AddToGroupVersion(scheme, stored)
	metav1.AddToGroupVersion(scheme, old)
}
