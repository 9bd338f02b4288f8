/* check/loaded.h - plugin files opened for checking, without the registry of host/runtime/plugin: the checks want them
 * opened twice, closed, and their descriptions raw. */
#ifndef CHECK_LOADED_H
#define CHECK_LOADED_H
#include "check/check.h"

/* An open file. Zero it first. */
typedef struct loaded_plugin {
    const char *path;
    void *handle;
    inlay_plugin_open_fn open;
    const inlay_plugin *raw;   /* as the plugin handed it over */
    inlay_plugin table;        /* the same as this host knows it, like the next two */
    inlay_provider *providers; /* [table.provider_count]; their options and domains keep the plugin's strides */
    inlay_operator *operators; /* [table.operator_count] */
    uint32_t sanitizers;       /* INLAY_SANITIZER_*, by its file */
    struct arena arena;
} loaded_plugin;

/* dlopen, inlay_plugin_open, and copies of what it says. Lists that make no sense are INLAY_INVALID_ARGUMENT. */
INLAY_NODISCARD inlay_status loaded_open(const char *path, loaded_plugin *out, inlay_diag *diag);
/* shutdown, and dlclose if the plugin allows it. Nothing of it may be open. */
void loaded_close(loaded_plugin *plugin);

/* A created provider. */
typedef struct loaded_provider {
    const loaded_plugin *plugin;
    const inlay_provider *table;
    void *state;
    const char *name;
    uint32_t first_domain;
} loaded_provider;

/* create. asked (NULL: default options) says which options are set. */
INLAY_NODISCARD inlay_status loaded_create(const loaded_plugin *plugin, uint32_t index, const check_args *asked,
                                           loaded_provider *out, inlay_diag *diag);
/* quiesce and destroy; one that was not created is a no-op. */
void loaded_destroy(loaded_provider *provider);

/* ------------------------------------------------------------------ all that a group needs */

enum { FIXTURE_PLUGINS = 3, FIXTURE_PROVIDERS = 16 };
struct fixture {
    loaded_plugin plugins[FIXTURE_PLUGINS]; /* the one that is checked first */
    uint32_t plugin_count;
    loaded_provider own[FIXTURE_PROVIDERS]; /* that are checked */
    uint32_t own_count;
    loaded_provider peers[FIXTURE_PROVIDERS]; /* that they are compared with */
    uint32_t peer_count;
    bool is_reference; /* the plugin is the reference provider: there is nobody to compare with */
    graph_operators operators;
};

/* Opens the plugin and the one of --with, and creates their providers; with_reference: the reference provider too, if
 * it is installed. False: the plugin cannot be opened; the report then has a SKIP line for check `name`. */
bool fixture_open(struct check *check, const char *name, bool with_reference, struct fixture *fixture);
void fixture_close(struct fixture *fixture);
/* The operators that its plugins bring, at most room of them; returns how many. */
uint32_t fixture_operators(const struct fixture *fixture, const inlay_operator **list, uint32_t room);
/* Opens a world as fixture_open() does, without the reference provider, for fn with each provider that is checked. */
typedef void (*fixture_fn)(struct check *check, const struct fixture *fixture, const loaded_provider *provider,
                           const inlay_operator *const *custom, uint32_t custom_count);
void fixture_each(struct check *check, const char *name, fixture_fn fn);
#endif
