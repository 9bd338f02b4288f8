/* threads/scene.h - whose code a thread is running: the note that a crash report is made from (plugin/crash.h). Workers
 * of a loop borrow the note of the thread that started the loop. */
#ifndef THREADS_SCENE_H
#define THREADS_SCENE_H

struct plugin_module;

typedef struct crash_scene {
    const struct plugin_module *module; /* whose code runs; NULL = the host's own */
    const char *call;                   /* "assess", "execute" ...; static text */
    const char *provider;               /* or NULL, like the next */
    const char *node;
    const void *step; /* where describe is set: what it takes the four above from */
    void (*describe)(const void *step, struct crash_scene *out);
    const struct crash_scene *borrowed; /* a worker of a loop: the scene of the thread that started the loop */
} crash_scene;

/* The scene of this thread. Initial-exec, because a handler must not allocate it. */
extern _Thread_local crash_scene crash_here __attribute__((tls_model("initial-exec")));
#endif
