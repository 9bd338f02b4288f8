/* threads/scene.h - records which plugin's code a thread is executing, for crash reports (plugin/crash.h). Workers of a
 * loop refer to the record of the thread that started the loop. */
#ifndef THREADS_SCENE_H
#define THREADS_SCENE_H
#include <stdint.h>

struct plugin_module;

typedef struct crash_scene {
    const struct plugin_module *module; /* the plugin that is executing; NULL = the host */
    const char *call;                   /* "assess", "execute" ...; static text */
    const char *provider;               /* may be NULL */
    const char *node;                   /* may be NULL */
    uint64_t model;                     /* graph_model.identity of the model that is processed; 0 = unknown */
    const void *step;                   /* argument of describe */
    /* If set, fills in module, call, provider and node when a report is written. */
    void (*describe)(const void *step, struct crash_scene *out);
    const struct crash_scene *borrowed; /* for a worker of a loop: the scene of the thread that started the loop */
} crash_scene;

/* The scene of this thread. Its TLS model is initial-exec, because with other models the first access, which may be in
 * a signal handler, may allocate memory. WebAssembly has one model. */
#if defined(__wasm__)
extern _Thread_local crash_scene crash_here;
#else
extern _Thread_local crash_scene crash_here __attribute__((tls_model("initial-exec")));
#endif
#endif
