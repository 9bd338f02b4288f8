/* partition/certificate/certificate.h - where `inlay plugin-check --certificate` has compared a provider with
 * reference: for each operator the types, attributes, sizes and magnitudes with which both agreed.
 *
 * A node is inside if exactly this node agreed as one of a model (traits_exact()). Others are inside if each of their
 * traits occurred in a case that agreed, each two of their forms in one case together, none of their amounts is larger
 * than checked, and no combination of traits with which results differed fits them. Sizes that are known only during
 * the run are not compared, unless results differed for some sizes.
 *
 * A file holds for the plugin and the options that it was written for: their SHA-256 sums are in it.
 *
 *     certificate_load(path, &arena, &file, &diag)
 *     certificate_find(file, "vendor")                                   NULL: it says nothing about this provider
 *     certificate_fits(file, provider, &opened_as, &diag)                written for this file and these options?
 *     certificate_covers(provider, graph, nodes, count, why, sizeof why) */
#ifndef PARTITION_CERTIFICATE_CERTIFICATE_H
#define PARTITION_CERTIFICATE_CERTIFICATE_H
#include "base/setting.h"
#include "partition/certificate/traits.h"

enum { CERTIFICATE_FORMAT = 1, CERTIFICATE_FORMS = 512, CERTIFICATE_RANGES = 4 };

/* A combination of traits with which results differed. */
typedef struct certificate_difference {
    const trait_range *when; /* [count] all of them */
    uint32_t count;
} certificate_difference;

typedef struct certificate_operator {
    const char *domain, *op_type;
    bool grouped;        /* as a part of a group of nodes that is offered as a whole */
    const char *outside; /* not NULL: no node is inside, and this is why */
    const char **forms;  /* [form_count] sorted */
    uint32_t form_count;
    const uint8_t *together; /* [form_count][form_count] 1 = in one case that agreed */
    trait_range *ranges;     /* [range_count] remainders: one level each; amounts: from 0 to the largest */
    uint32_t range_count;
    certificate_difference *differences; /* [difference_count] */
    uint32_t difference_count;
    const char **nodes; /* [node_count] sorted: traits_exact() of nodes of models that agreed in all runs */
    uint32_t node_count;
} certificate_operator;

typedef struct certificate_option {
    const char *name, *value;
    const char *sha256; /* of the file that the value names; NULL: it names none */
} certificate_option;

typedef struct certificate_provider certificate_provider;
struct certificate_provider {
    const char *name;
    certificate_option *options; /* [option_count] that it was checked with */
    uint32_t option_count;
    bool merges;         /* regions of merged offers agreed */
    const char *failed;  /* not NULL: a check that concerns every operator, which failed */
    const char **groups; /* [group_count] groups of nodes that agreed: "Conv Relu" */
    uint32_t group_count;
    certificate_operator *operators; /* [operator_count] */
    uint32_t operator_count;
};

typedef struct certificate_file {
    const char *path;
    const char *plugin_sha256;
    certificate_provider *providers; /* [provider_count] */
    uint32_t provider_count;
} certificate_file;

/* Reads a file into memory of the arena. INLAY_NOT_FOUND, INLAY_INVALID_ARGUMENT (the message names the line or the
 * member), INLAY_OUT_OF_MEMORY. */
INLAY_NODISCARD inlay_status certificate_load(const char *path, struct arena *arena, certificate_file **out,
                                              inlay_diag *diag);
const certificate_provider *certificate_find(const certificate_file *file, const char *provider);

/* How a session has opened the provider. */
typedef struct certificate_identity {
    const char *plugin_path;
    const provider_setting *settings; /* [setting_count] */
    uint32_t setting_count;
} certificate_identity;
/* INLAY_INVALID_ARGUMENT: the certificate was written for another file or other options, which the message names. */
INLAY_NODISCARD inlay_status certificate_fits(const certificate_file *file, const certificate_provider *provider,
                                              const certificate_identity *opened_as, inlay_diag *diag);

/* Are all nodes of an offer inside? False: why has "outside what was checked: dilations 3". Thread-safe. */
bool certificate_covers(const certificate_provider *provider, const struct graph *graph, const uint32_t *nodes,
                        uint32_t node_count, char *why, size_t bytes);

/* The SHA-256 sum of a file. INLAY_IO_ERROR: it cannot be read. */
INLAY_NODISCARD inlay_status certificate_hash_file(const char *path, char out_text[65], inlay_diag *diag);
/* "Conv Relu": the operators of the nodes, in order. Returns text, cut to fit. */
char *certificate_group_text(const struct graph *graph, const uint32_t *nodes, uint32_t node_count, char *text,
                             size_t bytes);
#endif
