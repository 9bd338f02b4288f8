/* plugin/isolate.h - plug-ins whose code runs in a separate process.
 *
 * The host uses an isolated plug-in like any other one: by a description (inlay_plugin) whose functions make calls in
 * the process (providers/remote). */
#ifndef PLUGIN_ISOLATE_H
#define PLUGIN_ISOLATE_H
#include "inlay/status.h"
#include <stdbool.h>

struct inlay_graph;
struct inlay_plugin;
/* Starts a process of the helper (inlay-probe) that loads the file, and gets the plug-in's description, which lives
 * until its shutdown has returned. Texts are copied. fd is a descriptor of the file; it is duplicated.
 * INLAY_UNSUPPORTED: this build starts no such processes. In module_file.c. */
INLAY_NODISCARD inlay_status isolate_open(const char *helper, const char *path, int fd,
                                          const struct inlay_plugin **out_plugin, inlay_diag *diag);
/* Why a plug-in is refused that has operators of its own. */
#define ISOLATE_HAS_OPERATORS                                                                                          \
    "it has custom operators, whose shape inference runs in the process of the host: it cannot be isolated (option "   \
    "isolate)"
/* Limits of an open provider of such a plug-in. */
typedef struct isolate_limits {
    uint64_t call_ms;      /* time of one call; 0 = no limit */
    uint64_t memory_bytes; /* memory of its process; 0 = three quarters of what this process may use */
} isolate_limits;
/* An extension that each provider of such a plug-in has. state is the one that create returned. */
#define ISOLATE_CONTROL "isolate_control"
typedef struct isolate_control {
    void (*set_limits)(void *state, const isolate_limits *limits);
    /* After INLAY_DEVICE_LOST: may the provider's process be started again? Its next call then starts it. */
    bool (*may_restart)(void *state);
    /* The host uses none of the offers for the graph any more, except in compiled regions. */
    void (*forget)(void *state, const struct inlay_graph *graph);
} isolate_control;
#endif
