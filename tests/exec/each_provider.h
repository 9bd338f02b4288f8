/* each_provider.h - the same graphs on each provider, and at level 0 of the reference, whose results the others must
 * have. */
#ifndef TESTS_EACH_PROVIDER_H
#define TESTS_EACH_PROVIDER_H
#include "cmocka_all.h"
#include "graph_script.h"

/* LEVEL_0: the reference without optimisations. */
enum { REFERENCE, CPU, ONEDNN, VULKAN, SETTINGS, LEVEL_0 = SETTINGS, SESSIONS };
struct setting {
    const char *name;
    const char *options[7]; /* names and values, then NULL */
};
extern const struct setting settings[SESSIONS];
extern bool available[SETTINGS]; /* set by find_providers() */

/* Set up and tear down a group of tests: keep the plugins loaded between its sessions. */
int find_providers(void **state);
int release_providers(void **state);

/* False: it does not open, and *out is closed. */
bool try_open(const char *script, const char *const *options, struct rig *out);

/* The sessions of one script. Each is opened on first use and runs all inputs of the script. */
struct sessions {
    const char *script;
    struct rig each[SESSIONS]; /* by settings */
};
/* Runs the inputs that feeder binds; fed is its second argument. */
const struct rig *sessions_run(struct sessions *sessions, size_t setting, void (*feeder)(struct rig *, const void *),
                               const void *fed);
void sessions_close(struct sessions *sessions);

extern int wrong; /* results that differed and were printed */
void expect_none_wrong(void);
#endif
