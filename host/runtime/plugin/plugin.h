/* plugin/plugin.h - the plugins of this process: found in directories, loaded, and their providers opened.
 *
 *     plugin_set_search      directories -> files -> rules, note, probe -> dlopen -> handshake -> providers and
 *                            operators, none opened yet
 *     provider_open          options checked, device opened; equal requests share one
 *     provider_close         quiesce, destroy, when the last user is gone
 *     plugin_set_destroy     shutdown and, where a plugin allows it, dlclose, when the last set is gone
 *
 * Loaded files and open providers belong to the process and are counted; a plugin_set is one session's view of them.
 * Any thread may call anything here; a set itself is read-only once it is made.
 *
 * What plugins hand over is copied into structs as this host knows them, zero where a plugin was compiled with less. So
 * the rest of the host reads inlay_provider and its like without asking how far they reach. */
#ifndef PLUGIN_PLUGIN_H
#define PLUGIN_PLUGIN_H
#include "base/setting.h"
#include "graph/graph.h"

typedef struct plugin_set plugin_set;

/* What may become of a file. One list makes the enum and the words of plugin_outcome_text(). */
#define PLUGIN_OUTCOMES(X)                                                                                             \
    X(LOADED, "loaded")                                                                                                \
    X(NOT_ELF, "not an ELF file")                                                                                      \
    X(SHADOWED, "shadowed")       /* a file before it brings a provider of the same name */                            \
    X(REFUSED, "refused")         /* by a rule, the note, the plugin itself, or what it says */                        \
    X(CRASHED, "crashed")         /* just now, when it was tried */                                                    \
    X(HUNG, "hung")               /* likewise */                                                                       \
    X(QUARANTINED, "quarantined") /* it did so once, and has not changed since */
typedef enum plugin_outcome {
#define PLUGIN_OUTCOME(name, text) PLUGIN_##name,
    PLUGIN_OUTCOMES(PLUGIN_OUTCOME)
#undef PLUGIN_OUTCOME
} plugin_outcome;
const char *plugin_outcome_text(plugin_outcome outcome);

/* What became of a file that was found. */
typedef struct plugin_file {
    const char *path;
    bool loaded; /* outcome is PLUGIN_LOADED */
    plugin_outcome outcome;
    const char *reason; /* why not, one line; NULL when loaded */
    const char *fix;    /* what to do about a file that crashed, hung or is quarantined; otherwise NULL, for then
                           the reason says it */
    const char *name;   /* of the plugin, once it or its note has said so; otherwise NULL, like the next two */
    const char *version;
    const char *build_id;
    const char *providers; /* names by its note, separated by spaces, also of a file that was not loaded; or "" */
    uint32_t provider_count;
    uint32_t operator_count;
    uint32_t abi_minor;
} plugin_file;

/* A provider that could be opened. */
typedef struct plugin_provider {
    inlay_provider table; /* options and domains point to the next two; strides are this host's */
    const inlay_option *options;
    const inlay_domain_info *domains;
    const plugin_file *file;      /* that brought it */
    struct plugin_module *module; /* private to this folder */
} plugin_provider;

/* Where plugins are looked for when nobody says otherwise: ../lib/inlay/plugins beside the directory of the library or
 * executable that this code is in. Writes the path into text and returns it, NULL if there is no such directory. */
const char *plugin_default_dir(char *text, size_t bytes);

typedef void (*plugin_log_fn)(void *user, uint32_t level, const char *text);

enum { PLUGIN_PROBE_AUTO, PLUGIN_PROBE_ALWAYS, PLUGIN_PROBE_NEVER };

/* Where plugins are looked for, and how much is believed of them. Borrowed for the call. */
typedef struct plugin_search {
    const char *const *dirs; /* [dir_count], in their order */
    uint32_t dir_count;
    uint32_t probe;          /* PLUGIN_PROBE_*: whether a process of its own tries a new file first. AUTO: where the
                                helper that does it is installed; ALWAYS: a file that can't be probed is refused */
    uint32_t probe_ms;       /* how long that may take; 0 = 5000 */
    const char *verdict_dir; /* folder where verdicts are kept, which exists; NULL or "" = in this process only */
    const char *allow;       /* file with the SHA-256 sums of the files that may be loaded; NULL or "" = any file */
    plugin_log_fn log;       /* may be NULL; it also hears what plugins say while the set lives */
    void *log_user;
} plugin_search;

/* Loads every *.so of the directories, in their order and then by name. A directory that is missing, is the working
 * directory or may be written to by others is an error; a file that cannot be loaded is not: its plugin_file says why.
 * Two plugins with a provider of the same name, or an operator of the same name and version, are an error that names
 * both files. */
INLAY_NODISCARD inlay_status plugin_set_search(const plugin_search *search, plugin_set **out_set, inlay_diag *diag);
/* The same, with list (colon-separated, as option plugin_dirs has it) and after that the default directory instead of
 * search->dirs. */
INLAY_NODISCARD inlay_status plugin_set_search_listed(const plugin_search *search, const char *list,
                                                      plugin_set **out_set, inlay_diag *diag);

/* See inlay_plugin_register(). */
inlay_status plugin_register(inlay_plugin_open_fn open_plugin, inlay_diag *diag);

/* Open providers keep their plugin loaded by themselves. NULL is a no-op. */
void plugin_set_destroy(plugin_set *set);

uint32_t plugin_set_file_count(const plugin_set *set);
const plugin_file *plugin_set_file(const plugin_set *set, uint32_t i);
uint32_t plugin_set_provider_count(const plugin_set *set);
const plugin_provider *plugin_set_provider(const plugin_set *set, uint32_t i);
/* The file that was not loaded and would have brought the provider of that name, by its note or else by its own name;
 * NULL: none. */
const plugin_file *plugin_set_find_missed(const plugin_set *set, const char *name);
/* Forgets what is remembered of the files of set that were not loaded and go by that name: of the plugin, one of its
 * providers, the file, or its path. The next set tries them again. INLAY_NOT_FOUND: there are none. */
INLAY_NODISCARD inlay_status plugin_retry(const plugin_search *search, const plugin_set *set, const char *name,
                                          inlay_diag *diag);
/* Calls `device` for each device of the provider, none of which is opened; for one that can't list them, with what the
 * plugin says of itself. INLAY_UNSUPPORTED: there is none, with the reason in diag. */
typedef inlay_status (*plugin_device_fn)(void *user, const inlay_device_info *info);
INLAY_NODISCARD inlay_status plugin_devices(const plugin_provider *provider, plugin_device_fn device, void *user,
                                            inlay_diag *diag);
/* By name; NULL: none. */
const plugin_provider *plugin_set_find(const plugin_set *set, const char *name);
/* The operators that plugins brought, for graph_bind; as long as the set. */
const graph_operators *plugin_set_operators(const plugin_set *set);
uint32_t plugin_set_operator_count(const plugin_set *set);
const inlay_operator *plugin_set_operator(const plugin_set *set, uint32_t i);
/* Why a set has no such operator, as a sentence for the user: the domain is unknown (and which one it may have meant,
 * which directories were searched, which files there were not loaded), or has no such operator, or not at that version.
 * set is a plugin_set; this is graph_operators.missing. */
void plugin_set_missing(void *set, const char *domain, const char *op_type, int64_t opset, char *text, size_t bytes);

/* ------------------------------------------------------------------ open providers */

/* An open provider. Read-only. The functions in table are the host's, which note whose code runs and call the plugin's:
 * they go with state, and with no other. */
struct provider {
    const inlay_provider *table; /* first argument of its functions: state */
    void *state;
    const char *name;
    const char *path;    /* of the plugin */
    const char *version; /* of the plugin; with build_id and settings the key of caches */
    const char *build_id;
    uint32_t first_domain;           /* host-wide id of its domains[0] */
    uint32_t abi_minor;              /* that the plugin was built for */
    const inlay_device_info *device; /* what the provider says of it; fields are 0 and NULL where it does not */
};

/* Opens the provider of that name with settings, or shares one that is open with the same. An unknown name or setting
 * is INLAY_INVALID_ARGUMENT with the nearest known one; INLAY_UNSUPPORTED is a device that is not there. */
INLAY_NODISCARD inlay_status provider_open(plugin_set *set, const char *name, const provider_setting *settings,
                                           uint32_t setting_count, const struct provider **out_provider,
                                           inlay_diag *diag);
/* The plugin's own execute behind the table of an open provider, for the run loop, which counts each call; *state, the
 * provider's, becomes the plugin's own. Who calls it notes whose code runs himself (plugin/crash.h). */
typedef inlay_status (*provider_execute_fn)(void *state, inlay_compiled *compiled, inlay_instance *instance,
                                            const inlay_exec_args *args);
provider_execute_fn provider_direct(const inlay_provider *table, void **state);
/* The module of an open provider's table and state, for crash_scene; NULL for a table of another kind. Safe in signal
 * handlers. */
const struct plugin_module *provider_module(const inlay_provider *table, const void *state);
/* All that was compiled with it must be released. NULL is a no-op. */
void provider_close(const struct provider *shown);
/* The same of a device that hangs, and is never given back: it gets so many milliseconds to end its work, for at the
 * end of the process exit handlers take from a driver what it works with. */
void provider_leave(const struct provider *shown, uint64_t limit_ms);
/* One more reference, for provider_close() to end. Returns shown. */
const struct provider *provider_hold(const struct provider *shown);
/* Where providers that are opened from now on keep files (inlay_create_args.cache_dir); copied. NULL: nowhere. */
void plugin_set_cache(plugin_set *set, const char *dir);
const char *plugin_set_cache_dir(const plugin_set *set);
/* After INLAY_DEVICE_LOST, with the state of an open provider: nobody is handed that one any more, and the next
 * provider_open opens the device anew. */
void provider_lost(const void *state);
/* Was it? */
bool provider_is_lost(const void *state);
/* The open provider whose domain that is; NULL for the host's and for unknown ones. */
const struct provider *provider_of_domain(uint32_t domain, const inlay_domain_info **out_info);

/* Is text one of the option's choices? */
bool provider_option_is_choice(const inlay_option *option, const char *text);

/* Parses the settings of a provider against its schema into values (one per option, in the order of the schema; strings
 * borrow from settings and schema). who names the provider in messages. */
INLAY_NODISCARD inlay_status provider_parse_options(const char *who, const inlay_option *options, uint32_t count,
                                                    const provider_setting *settings, uint32_t setting_count,
                                                    inlay_option_value *values, inlay_diag *diag);

/* ------------------------------------------------------------------ the host table */

/* What every plugin gets. */
const inlay_host *host_table(void);
/* Who hears inlay_host.log. Added and removed in pairs; several sessions with the same log count once. */
inlay_status host_log_add(plugin_log_fn log, void *user);
void host_log_remove(plugin_log_fn log, void *user);
#endif
