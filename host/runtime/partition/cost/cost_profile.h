/* partition/cost/cost_profile.h - the machine profile: the results of `inlay tune --machine`, stored in
 * costs/machine.json.
 *
 * For each provider it has lines: a fitted time model (cost_fit.h) for a class of kernels (cost_class.h) at a thread
 * count; a factor for kernels without a line; links: the cost of copies to and from its memory domains. A provider is
 * identified by its identity (cost_key.h), so a new build, another device or other settings start without a profile. */
#ifndef PARTITION_COST_PROFILE_H
#define PARTITION_COST_PROFILE_H
#include "partition/cost/cost_class.h"
#include "partition/cost/cost_fit.h"
#include "partition/cost/cost_store.h"
#include "inlay/extensions.h"

typedef struct profile_line {
    cost_class class; /* op belongs to the profile */
    uint32_t threads;
    fit_line fit;
} profile_line;

/* Measured time / time expected by the provider's own model, medians over all kernels: for kernels, and for values that
 * enter and leave its regions. */
typedef struct profile_factor {
    uint32_t threads;
    double factor, border; /* 1 = as the model says */
} profile_factor;

/* A copy of n bytes takes latency_ns + n * ns_per_byte. */
typedef struct profile_copy {
    double latency_ns, ns_per_byte;
} profile_copy;
typedef struct profile_link {
    const char *domain; /* its name; the other side is host memory */
    profile_copy to, from;
} profile_link;

typedef struct profile_provider {
    const char *name, *build_id; /* informational */
    uint64_t identity;
    profile_line *lines; /* [line_count] */
    profile_factor *factors;
    profile_link *links;
    uint32_t line_count, factor_count, link_count;
} profile_provider;

typedef struct cost_profile {
    char cpu[160];               /* of the machine where the profile was made */
    inlay_speed speed;           /* of its cores; struct_size 0: the profile is empty */
    profile_provider *providers; /* [provider_count] */
    uint32_t provider_count;
    struct arena arena; /* owns all lists */
} cost_profile;

/* Describes this machine's processor, or the assumed one; differs between models: "AMD EPYC 9575F (family 26, model
 * 2)". */
void profile_cpu(char *text, size_t bytes);
/* Lets the costs of this process be those of another machine: measurements are looked up as on that processor, for
 * runs on that number of threads. Called once, before any session is opened. */
void profile_assume(const char *cpu, uint32_t threads);
/* Is another machine assumed? */
bool profile_is_assumed(void);
/* The threads for which measurements are looked up: those of the run, or those of the assumed machine. */
uint32_t profile_threads(uint32_t of_run);

/* Reads the file of that name in the folder; NULL is machine.json. If the file is missing, malformed, or from another
 * machine, *out is empty, and a message is logged unless it is missing. Fails only if out of memory. */
INLAY_NODISCARD inlay_status profile_load(const char *folder, const char *name, const cost_log *log, cost_profile *out);
INLAY_NODISCARD inlay_status profile_save(const char *folder, const char *name, const cost_profile *profile,
                                          inlay_diag *diag);
void profile_deinit(cost_profile *profile);
/* The provider with that identity, NULL if none. */
const profile_provider *profile_find(const cost_profile *profile, uint64_t identity);
#endif
