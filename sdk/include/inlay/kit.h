/* inlay/kit.h - a provider from a table of kernels.
 *
 * The kit is a small static library that is linked into a plugin. A plugin author writes functions that compute one
 * operator each and lists them; the kit implements the provider's functions (assess, cost, compile, specialize,
 * execute) from this list.
 *
 *     static inlay_status run_relu(const kit_call *call) { ... }
 *
 *     static const kit_kernel kernels[] = {
 *         { .op_type = "Relu", .in_types = { KIT_FLOATS }, .flags = KIT_IN_PLACE, .run = run_relu },
 *     };
 *     static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
 *     static const kit_provider provider = { .name = "mine", .description = "..", .tables = tables, .table_count = 1 };
 *     static const kit_plugin mine = { .name = "mine", .version = "1.0", .provider = &provider };
 *     KIT_PLUGIN(mine)
 *
 * A kernel has four functions, of which only run is required:
 *     supports   called when the host assesses a graph: states whether the node can be run, otherwise the reason
 *     prepare    called once for each node and session: reads attributes, packs constant weights; returns the state,
 *                which all threads share
 *     shape      called once for each new set of input shapes: requests workspace, chooses the outputs that run
 *                allocates, computes what depends on shapes; returns the plan, which all threads share
 *     run        computes, in every run; no heap, no lock, any number of threads at once
 *
 * Tensors are dense row-major in host memory. They are aligned to 64 bytes, except buffers of the user, which are
 * aligned to the element size, but to no more than 8 bytes (COMPLEX64: 4). Use int64_t for offsets within a tensor.
 * Sub-byte types are packed, low bits first. */
#ifndef INLAY_KIT_H
#define INLAY_KIT_H
#include "inlay/kit_kernel.h"
#include "inlay/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A provider that consists of tables of kernels. */
typedef struct kit_provider {
    const char *name;               /* [a-z0-9_] */
    const char *description;        /* one line */
    const kit_table *const *tables; /* [table_count]; the first kernel that matches a node is used */
    uint32_t table_count;
    uint32_t option_count;
    const inlay_option *options; /* [option_count] */
    /* Optional: reads options and opens devices or libraries. *out becomes kit_node.provider. */
    inlay_status (*open)(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag);
    void (*close)(void *provider); /* optional: the opposite of open */
    /* A cancelled or late run ends within this number of milliseconds, because long kernels call kit_poll; 0: not
     * guaranteed. */
    uint32_t poll_ms;
    /* INLAY_PROVIDER_REFERENCE_CORE (the costs of kernels without cost refer to that core),
     * INLAY_PROVIDER_FLUSHES_DENORMALS; or 0 */
    uint32_t flags;
    /* Optional: the time of a kernel's work on one thread in nanoseconds, on this machine, without reading and writing
     * memory. estimate: what the kit, or kit_kernel.cost, assumes for any kernel with such sizes. */
    double (*work_ns)(const kit_node *node, const kit_plan *shapes, double estimate);
    /* Bytes that such kernels read and write in a nanosecond on one thread; 0: those of this machine's caches and
     * memory. */
    double bytes_per_ns;
} kit_provider;

/* A plugin built with the kit: a provider, operators, or both. */
typedef struct kit_plugin {
    const char *name;                /* of the plugin */
    const char *version;             /* "1.2.0" */
    const kit_provider *provider;    /* NULL: none */
    const inlay_operator *operators; /* [operator_count] operators of the plugin's own domain */
    uint32_t operator_count;
    uint32_t flags; /* INLAY_PLUGIN_* */
} kit_plugin;

/* The structs of the ABI, filled in by kit_open; static storage of the plugin. */
typedef struct kit_exports {
    inlay_plugin plugin;
    inlay_provider provider;
    char build_id[72];
} kit_exports;

/* The body of inlay_plugin_open: checks the host's ABI, fills in *exports and sets *out_plugin. The build id is that of
 * the linker (--build-id), otherwise a hash of the code. */
inlay_status kit_open(const kit_plugin *self, kit_exports *exports, const inlay_host *host,
                      const inlay_plugin **out_plugin, inlay_diag *diag);

/* Returns the inlay_provider that implements a kit_provider, for a provider that runs only some of its nodes with
 * tables and forwards these nodes to the kit. `self` must outlive the result and is its ctx. */
inlay_provider kit_describe_provider(const kit_provider *self);

/* Defines inlay_plugin_open for a kit_plugin, and the note that describes its build (inlay/note.h). Use it at the end
 * of one source file: KIT_PLUGIN_NAMED(mine, "mine", "mine_cpu", "com.example"). The texts are string literals: the
 * name of the plugin, the name of its provider, and the domains of its operators, separated by spaces ("" = none). The
 * host reads them from the note without running the plugin. They must agree with `self`: a plugin whose note differs is
 * rejected. */
#define KIT_PLUGIN_NAMED(self, name, provider, domains)                                                                \
    INLAY_PLUGIN_NOTE(name, provider, domains)                                                                         \
    inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)          \
    {                                                                                                                  \
        static kit_exports exports;                                                                                    \
        return kit_open(&(self), &exports, host, out_plugin, diag);                                                    \
    }

/* Like KIT_PLUGIN_NAMED, with a note that has no names. If a host cannot load the file, its message does not name the
 * plugin and its providers. */
#define KIT_PLUGIN(self) KIT_PLUGIN_NAMED(self, "", "", "")

#ifdef __cplusplus
}
#endif
#endif
