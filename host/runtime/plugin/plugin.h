/* plugin/plugin.h - the plugins of this process: found in directories, loaded, and their providers opened.
 *
 *     plugin_set_search      directories -> files -> trust rules, note, probe -> dlopen -> handshake -> providers and
 *                            operators, none opened yet
 *     provider_open          checks the options and opens the device; equal requests share one open provider, unless it
 *                            is isolated
 *     provider_close         quiesce and destroy, when the last user closes it
 *     plugin_set_destroy     shutdown and, where the plugin allows it, dlclose, when the last set is destroyed
 *
 * Loaded files and open providers belong to the process and are reference-counted; a plugin_set is one session's
 * view of them. Any thread may call any function here. A set is read-only once created.
 * The tables of plugins are copied into structs of this host's layout. Fields beyond the size that the plugin was
 * compiled with are zero, so the rest of the host reads inlay_provider and similar structs without checking their
 * size. */
#ifndef PLUGIN_PLUGIN_H
#define PLUGIN_PLUGIN_H
#include "base/setting.h"
#include "inlay/types.h"
#include "plugin/isolate.h"

struct graph_operators;
struct inlay_compiled;
struct inlay_control_args;
struct inlay_device_info;
struct inlay_domain_info;
struct inlay_exec_args;
struct inlay_host;
struct inlay_instance;
struct inlay_operator;
struct inlay_option;
struct inlay_option_value;
struct inlay_plugin;
struct inlay_provider;
typedef struct plugin_set plugin_set;

/* The outcomes for a plugin file. One list makes the enum and the texts of plugin_outcome_text(). */
#define PLUGIN_OUTCOMES(X)                                                                                             \
    X(LOADED, "loaded")                                                                                                \
    X(NOT_ELF, "not an ELF file")                                                                                      \
    X(SHADOWED, "shadowed")       /* another file with the same provider, operator or plugin name is used */           \
    X(REFUSED, "refused")         /* by a trust rule, the note, the plugin itself, or its description */               \
    X(CRASHED, "crashed")         /* in the probe, just now */                                                         \
    X(HUNG, "hung")               /* in the probe, just now */                                                         \
    X(QUARANTINED, "quarantined") /* the file crashed or hung earlier and has not changed since */
typedef enum plugin_outcome {
#define PLUGIN_OUTCOME(name, text) PLUGIN_##name,
    PLUGIN_OUTCOMES(PLUGIN_OUTCOME)
#undef PLUGIN_OUTCOME
} plugin_outcome;
const char *plugin_outcome_text(plugin_outcome outcome);

/* A file found in a plugin directory, and its outcome. */
typedef struct plugin_file {
    const char *path;
    bool loaded;   /* outcome is PLUGIN_LOADED */
    bool isolated; /* the plugin's code runs in separate processes (option isolate) */
    plugin_outcome outcome;
    const char *reason; /* why it was not loaded, one line; NULL when loaded */
    const char *fix;    /* the fix for a file that crashed, hung or is quarantined; NULL otherwise, because reason then
                           includes the fix */
    bool lost;          /* in quarantine, although it worked before (crash_marks) or is in the host's own folder */
    bool for_one_model; /* lost: for the model of the search only */
    const char *shadowed_by; /* PLUGIN_SHADOWED: the path of the file that is used instead; otherwise NULL */
    const char *advice;      /* how it could be built better, one line, for a file that is loaded; NULL = none */
    const char *name;        /* of the plugin, from its note or description; NULL if unknown, like the next two */
    const char *version;
    const char *build_id;
    const char *providers; /* names from its note, separated by spaces, also for a file that was not loaded; or "" */
    uint32_t provider_count;
    uint32_t operator_count;
    uint32_t abi_minor;
} plugin_file;

/* A provider that could be opened. */
typedef struct plugin_provider {
    const struct inlay_provider *table; /* its options and domains are the next two fields; strides are this host's */
    const struct inlay_option *options;
    const struct inlay_domain_info *domains;
    const plugin_file *file;      /* the file that contains the provider */
    struct plugin_module *module; /* private to this folder */
} plugin_provider;

/* The default plugin directory: ../lib/inlay/plugins relative to the directory of the library or executable that
 * contains this code. Writes the path into text and returns it; NULL if the directory does not exist. */
const char *plugin_default_dir(char *text, size_t bytes);

typedef void (*plugin_log_fn)(void *user, uint32_t level, const char *text);

enum { PLUGIN_PROBE_AUTO, PLUGIN_PROBE_ALWAYS, PLUGIN_PROBE_NEVER };

/* Where to search for plugins, and how far to trust them. Borrowed for the call. */
typedef struct plugin_search {
    const char *const *dirs; /* [dir_count], in search order; an entry may also be a plugin file (*.so) */
    uint32_t dir_count;
    uint32_t probe;    /* PLUGIN_PROBE_*: whether a separate process tests a new file first. AUTO: if the helper is
                          installed; ALWAYS: a file that cannot be probed is refused */
    uint32_t probe_ms; /* time limit of a probe; 0 = 5000 */
    const char *verdict_dir; /* an existing folder for verdicts; NULL or "" = keep them in this process only */
    const char *isolate; /* names of providers, comma-separated, whose plugins run in separate processes; "all": each
                            plugin file does; NULL or "": none */
    isolate_limits isolate_limits;
    uint64_t model;    /* identity of the model: plugins that crashed with it are not loaded; 0 = none */
    const char *allow; /* file with the SHA-256 sums of the permitted files; NULL or "" = any file */
    plugin_log_fn log; /* may be NULL; it also gets the log messages of plugins while the set lives */
    void *log_user;
} plugin_search;

/* Loads every *.so of the directories. A directory that is missing, is the working directory or is writable by other
 * users is an error. A file that cannot be loaded is not an error: its plugin_file has the reason.
 *
 * Two files must not have a provider, an operator or a plugin name in common. The first one is loaded; the other is
 * PLUGIN_SHADOWED. The order: plugins within the program (plugin_register); files that are entries of dirs; then the
 * directories in their order. Within a directory the higher version in the notes comes first, then the lower name. */
INLAY_NODISCARD inlay_status plugin_set_search(const plugin_search *search, plugin_set **out_set, inlay_diag *diag);
/* As plugin_set_search(), but searches the directories of list (colon-separated, as in option plugin_dirs) and then the
 * default directory instead of search->dirs. */
INLAY_NODISCARD inlay_status plugin_set_search_listed(const plugin_search *search, const char *list,
                                                      plugin_set **out_set, inlay_diag *diag);

enum { PLUGIN_NAMES_BYTES = 2048 };
/* Checks whether plugin_set_search() would read the file as an entry of its dirs: where the file is, who can change it,
 * and search->allow. No code of the file runs. providers: gets the names in its note, separated by spaces; "": none.
 * INLAY_NOT_FOUND, INLAY_INVALID_ARGUMENT: it would not; diag has the reason. */
INLAY_NODISCARD inlay_status plugin_check_file(const plugin_search *search, const char *path,
                                               char providers[PLUGIN_NAMES_BYTES], inlay_diag *diag);

/* See inlay_plugin_register(). */
inlay_status plugin_register(inlay_status (*open_plugin)(const struct inlay_host *, const struct inlay_plugin **,
                                                         inlay_diag *),
                             inlay_diag *diag);

/* Plugins with open providers stay loaded. NULL is a no-op. */
void plugin_set_destroy(plugin_set *set);

uint32_t plugin_set_file_count(const plugin_set *set);
const plugin_file *plugin_set_file(const plugin_set *set, uint32_t i);
uint32_t plugin_set_provider_count(const plugin_set *set);
const plugin_provider *plugin_set_provider(const plugin_set *set, uint32_t i);
/* The file that was not loaded and has a provider of that name, according to its note or else its file name; NULL:
 * none. */
const plugin_file *plugin_set_find_missed(const plugin_set *set, const char *name);
/* The number of models for which a plugin that is loaded is left out, because it crashed with them in the last day (see
 * plugin/verdict.h), and the latest reason. */
uint32_t plugin_file_crashes(const plugin_file *file, char *text, size_t bytes);
/* Deletes the verdicts and marks of the files of set that match name: the name of the plugin or of one of
 * its providers, the file name, or the path. The next set probes them again. INLAY_NOT_FOUND: no such file. */
INLAY_NODISCARD inlay_status plugin_retry(const plugin_search *search, const plugin_set *set, const char *name,
                                          inlay_diag *diag);
/* Calls `device` for each device of the provider and opens none. For a provider that cannot list its devices, calls
 * it once with the plugin's own description. INLAY_UNSUPPORTED: no device; diag has the reason. */
typedef inlay_status (*plugin_device_fn)(void *user, const struct inlay_device_info *info);
INLAY_NODISCARD inlay_status plugin_devices(const plugin_provider *provider, plugin_device_fn device, void *user,
                                            inlay_diag *diag);
/* The provider of that name, whose suffix "#WORD" is ignored; NULL: none. */
const plugin_provider *plugin_set_find(const plugin_set *set, const char *name);
/* The operators of the plugins, for graph_bind; valid as long as the set. */
const struct graph_operators *plugin_set_operators(const plugin_set *set);
uint32_t plugin_set_operator_count(const plugin_set *set);
const struct inlay_operator *plugin_set_operator(const plugin_set *set, uint32_t i);
/* The operator of a list that a model with this import uses; NULL: none. */
const struct inlay_operator *plugin_find_operator(const struct inlay_operator *operators, uint32_t count,
                                                  const char *domain, const char *op_type, int64_t opset);
/* Writes a message for the user that says why the set has no such operator: the domain is unknown (with the nearest
 * known domain, the directories searched and the files there that were not loaded), the domain has no such operator,
 * or the operator has no such version. set is a plugin_set; this is graph_operators.missing. */
void plugin_set_missing(void *set, const char *domain, const char *op_type, int64_t opset, char *text, size_t bytes);

/* An open provider. Read-only. The functions in table are the host's wrappers, which record the current call
 * (plugin/crash.h) and call the plugin's functions. They accept only this provider's state. */
struct provider {
    const struct inlay_provider *table; /* pass state as first argument of its functions */
    void *state;
    const char *name;
    const char *path;    /* of the plugin */
    const char *version; /* of the plugin; with build_id and settings it is the key of caches */
    const char *build_id;
    uint32_t first_domain;                  /* host-wide id of its domains[0] */
    uint32_t abi_minor;                     /* the ABI minor that the plugin was built for */
    const struct inlay_device_info *device; /* the provider's device description; omitted fields are 0 and NULL */
    /* [operator_count] that only this open provider defines (inlay.operators/1) */
    const struct inlay_operator *operators;
    uint32_t operator_count;
};

/* Opens the provider of that name with settings, or shares one that is open with the same settings. An unknown name
 * or setting is INLAY_INVALID_ARGUMENT with the nearest known one. INLAY_UNSUPPORTED: the device is missing. */
INLAY_NODISCARD inlay_status provider_open(plugin_set *set, const char *name, const provider_setting *settings,
                                           uint32_t setting_count, const struct provider **out_provider,
                                           inlay_diag *diag);
/* The plugin's execute function behind the table of an open provider. The run loop calls it directly because each
 * extra call counts there. *state is the provider's state and becomes the plugin's. The caller records the current
 * call itself (plugin/crash.h). For a provider whose instances execute one at a time (plugin/serial.h) it is the
 * wrapper. */
typedef inlay_status (*provider_execute_fn)(void *state, struct inlay_compiled *compiled,
                                            struct inlay_instance *instance, const struct inlay_exec_args *args);
provider_execute_fn provider_direct(const struct inlay_provider *table, void **state);
/* The plugin's own state, for functions of extensions that are not wrapped. */
void *provider_own_state(const struct inlay_provider *table, void *state);
/* The module of an open provider's table and state, for crash_scene; NULL for a table that is not a wrapper. Safe in
 * signal handlers. */
const struct plugin_module *provider_module(const struct inlay_provider *table, const void *state);
/* Before and after a run, and a call of the application that uses the device. INLAY_BUSY: the provider is suspended.
 * Any thread. In control.c, like provider_control(). */
INLAY_NODISCARD inlay_status provider_begin_use(const struct provider *handle, inlay_diag *diag);
void provider_end_use(const struct provider *handle);
/* Carries out an action (INLAY_CONTROL_*). SUSPEND waits until the provider is unused. INLAY_UNSUPPORTED: the provider
 * does not support the action. Any thread. */
INLAY_NODISCARD inlay_status provider_control(const struct provider *handle, struct inlay_control_args *args,
                                              inlay_diag *diag);
/* Everything compiled with the provider must have been released. NULL is a no-op. */
void provider_close(const struct provider *handle);
/* Quiesces the device of a provider that hangs and will never be closed: waits at most limit_ms for its work to end,
 * because exit handlers of the process destroy objects that the driver still uses. */
void provider_quiesce_lost(const struct provider *handle, uint64_t limit_ms);
/* Adds a reference, to be released by provider_close(). Returns handle. */
const struct provider *provider_retain(const struct provider *handle);
/* The folder for cache files of providers opened from now on (inlay_create_args.cache_dir); copied. NULL: none. */
void plugin_set_cache(plugin_set *set, const char *dir);
const char *plugin_set_cache_dir(const plugin_set *set);
const isolate_limits *plugin_set_isolate_limits(const plugin_set *set);
/* To call after INLAY_DEVICE_LOST, with the state of an open provider: provider_open no longer shares that provider
 * and opens the device anew. */
void provider_lost(const void *state);
/* Is the provider isolated, and may its process be started again? Then it is not lost: its next call starts it. */
bool provider_restarts(const void *state);
/* Was provider_lost() called for the provider? */
bool provider_is_lost(const void *state);
/* To call if work of the device hangs that belongs to no run: does what provider_lost() does, and keeps the provider
 * open for ever, because closing it waits for the work. Does not wait. */
void provider_hung(const struct provider *handle);
/* Was provider_hung() called for the provider? NULL: false. */
bool provider_hangs(const struct provider *handle);
/* The open provider that owns the domain; NULL for the host's domain and for unknown ones. */
const struct provider *provider_of_domain(uint32_t domain, const struct inlay_domain_info **out_info);

/* Parses the settings of a provider against its schema into values (one per option, in the order of the schema;
 * strings borrow from settings and schema). provider_name is used in messages. */
INLAY_NODISCARD inlay_status provider_parse_options(const char *provider_name, const struct inlay_option *options,
                                                    uint32_t count, const provider_setting *settings,
                                                    uint32_t setting_count, struct inlay_option_value *values,
                                                    inlay_diag *diag);

/* The functions of the host that every plugin gets. */
const struct inlay_host *host_table(void);
/* Receivers of inlay_host.log. Add and remove in pairs; several sessions with the same log function count once. */
inlay_status host_log_add(plugin_log_fn log, void *user);
void host_log_remove(plugin_log_fn log, void *user);
#endif
