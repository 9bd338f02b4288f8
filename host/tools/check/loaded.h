/* check/loaded.h - opens plugin files without the registry of host/runtime/plugin: the checks open a file twice, close
 * it, and need its raw description. */
#ifndef CHECK_LOADED_H
#define CHECK_LOADED_H
#include "check/check.h"
#include "check/shown.h"
#include "inlay/plugin.h"

/* An open plugin file. */
typedef struct loaded_plugin {
    const char *path;
    void *handle;
    inlay_plugin_open_fn open;
    const inlay_plugin *raw;   /* as returned by the plugin */
    inlay_plugin table;        /* copy in the struct layout of this host, like the next two */
    inlay_provider *providers; /* [table.provider_count]; their options and domains keep the plugin's strides */
    inlay_operator *operators; /* [table.operator_count] */
    uint32_t sanitizers;       /* INLAY_SANITIZER_* flags from the note in the file */
    struct arena arena;
} loaded_plugin;

/* Calls dlopen and inlay_plugin_open and copies the description. isolated: the code of the file runs in a process of
 * its own, and handle and open are NULL. INLAY_INVALID_ARGUMENT: the description is missing or inconsistent. */
INLAY_NODISCARD inlay_status loaded_open(const char *path, bool isolated, loaded_plugin *out, inlay_diag *diag);
/* Calls shutdown, and dlclose if the plugin allows it. The caller has destroyed the providers. */
void loaded_close(loaded_plugin *plugin);

/* A created provider. */
typedef struct loaded_provider {
    const loaded_plugin *plugin;
    const inlay_provider *table;
    void *state;
    const char *name;
    struct shown arguments; /* of create; inaccessible */
    uint32_t first_domain;
    bool is_own; /* of the plugin under check, not one to compare with */
} loaded_provider;

/* Calls create. settings_from (NULL: default options) holds the options to set. */
INLAY_NODISCARD inlay_status loaded_create(const loaded_plugin *plugin, uint32_t index, const check_args *settings_from,
                                           loaded_provider *out, inlay_diag *diag);
/* Calls quiesce and destroy; no-op on a provider that was not created. */
void loaded_destroy(loaded_provider *provider);

enum { FIXTURE_PLUGINS = 3, FIXTURE_PROVIDERS = 16 };
struct fixture {
    loaded_plugin plugins[FIXTURE_PLUGINS]; /* [0] is the plugin under test */
    uint32_t plugin_count;
    loaded_provider own[FIXTURE_PROVIDERS]; /* providers under test */
    uint32_t own_count;
    loaded_provider peers[FIXTURE_PROVIDERS]; /* providers to compare with */
    uint32_t peer_count;
    bool is_reference; /* the plugin under test is the reference provider: no provider to compare with */
    graph_operators operators;
};

/* Opens the plugin under test and the plugin of --with, and creates their providers. with_reference: also the reference
 * provider if it is installed. False: the plugin cannot be opened; the report then has a SKIP line for check `name`. */
bool fixture_open(struct check *check, const char *name, bool with_reference, struct fixture *fixture);
void fixture_close(struct fixture *fixture);
/* Does the operator have a type, a domain and a signature? The group `open` reports operators without these; other
 * groups skip such operators. */
bool loaded_is_whole(const inlay_operator *op);
/* Lists the whole operators of the plugins of the fixture, at most `room` of them; returns their number. */
uint32_t fixture_operators(const struct fixture *fixture, const inlay_operator **list, uint32_t room);
/* Opens a fixture without the reference provider and calls fn for each provider under test. */
typedef void (*fixture_fn)(struct check *check, const struct fixture *fixture, const loaded_provider *provider,
                           const inlay_operator *const *custom, uint32_t custom_count);
void fixture_each(struct check *check, const char *name, fixture_fn fn);
#endif
