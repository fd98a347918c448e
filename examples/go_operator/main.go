// A controller of Sites: each gets a Deployment of a web server, and a status.
package main

import (
	"context"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

// SiteReconciler makes the Deployment of a Site what the Site says.
type SiteReconciler struct {
	client.Client
}

func (r *SiteReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var site Site
	if err := r.Get(ctx, request.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace},
	}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		setSpec(deployment, &site)
		return controllerutil.SetControllerReference(&site, deployment, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("deployment %s: %w", site.Name, err)
	}
	if result != controllerutil.OperationResultNone {
		ctrl.LoggerFrom(ctx).Info("deployment "+string(result), "replicas", site.Spec.Replicas)
	}
	site.Status.ReadyReplicas = deployment.Status.ReadyReplicas
	site.Status.ObservedGeneration = site.Generation
	return ctrl.Result{}, r.Status().Update(ctx, &site)
}

func setSpec(deployment *appsv1.Deployment, site *Site) {
	labels := map[string]string{"site": site.Name}
	seconds := int64(0)
	deployment.Spec.Replicas = &site.Spec.Replicas
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Template.Labels = labels
	pod := &deployment.Spec.Template.Spec
	pod.TerminationGracePeriodSeconds = &seconds
	if len(pod.Containers) == 0 {
		pod.Containers = []corev1.Container{{Name: "web"}}
	}
	web := &pod.Containers[0]
	web.Image = "busybox:1.36"
	web.Command = []string{"sh", "-c", "echo \"$TEXT\" >index.html; exec httpd -f -p 8080"}
	web.WorkingDir = "/tmp"
	web.Env = []corev1.EnvVar{{Name: "TEXT", Value: site.Spec.Text}}
}

// SiteValidator refuses Sites without a text.
type SiteValidator struct{}

func (SiteValidator) ValidateCreate(_ context.Context, site *Site) (admission.Warnings, error) {
	return validate(site)
}

func (SiteValidator) ValidateUpdate(_ context.Context, _, site *Site) (admission.Warnings, error) {
	return validate(site)
}

func (SiteValidator) ValidateDelete(context.Context, *Site) (admission.Warnings, error) {
	return nil, nil
}

func validate(site *Site) (admission.Warnings, error) {
	if site.Spec.Text == "" {
		return nil, fmt.Errorf("spec.text: a site without a text has no visitors")
	}
	if site.Spec.Replicas > 5 {
		return admission.Warnings{"spec.replicas: one replica serves most sites"}, nil
	}
	return nil, nil
}

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(); err != nil {
		ctrl.Log.Error(err, "the controller has ended")
		os.Exit(1)
	}
}

func run() error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	addSites(scheme)
	namespace := os.Getenv("NAMESPACE")
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		LeaderElection:                true,
		LeaderElectionID:              "sites",
		LeaderElectionReleaseOnCancel: true,
		HealthProbeBindAddress:        ":8081",
		Metrics:                       server.Options{BindAddress: ":8080"},
		WebhookServer:                 webhook.NewServer(webhook.Options{CertDir: "/tls"}),
	})
	if err != nil {
		return err
	}
	hooks := manager.GetWebhookServer()
	hooks.Register("/convert", conversion.NewWebhookHandler(scheme, manager.GetConverterRegistry()))
	hooks.Register("/validate", admission.WithValidator(scheme, SiteValidator{}))
	if err := manager.AddReadyzCheck("webhook", hooks.StartedChecker()); err != nil {
		return err
	}
	if err := manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Site{}).
		Owns(&appsv1.Deployment{}).
		Complete(&SiteReconciler{manager.GetClient()})
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
