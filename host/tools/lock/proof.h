/* lock/proof.h - runs that another machine can verify in part.
 *
 * The nodes of a model, in execution order, are cut into regions of about equal numbers of nodes, those of the stages
 * of inlay_extract(). A run with option reproducible=cpu writes a folder: proof.json with a SHA-256 of every tensor
 * that enters or leaves a region, and each of these tensors as a file named by its hash. Any machine with the model
 * computes one region from the tensors that enter it, and compares what leaves it. If all regions hold, the outputs are
 * those of the model for the inputs: sdk/docs/pages/verifying.md. */
#ifndef LOCK_PROOF_H
#define LOCK_PROOF_H
#include "lock/lock.h"
#include "model/model.h"
#include "inlay/inlay.h"
#include <limits.h>

/* The tensors at the ends of a region, without constants. */
typedef struct proof_region {
    const char **inputs, **outputs; /* [input_count], [output_count] */
    const char **sizes;             /* [size_count] those of the inputs that follow from sizes of the model's inputs */
    uint32_t input_count, output_count, size_count;
} proof_region;

/* A model cut into regions. {0} is none. */
typedef struct proof_cut {
    graph_model *model; /* as in the file; owns the names */
    proof_region *regions;
    uint32_t count;
} proof_cut;

/* Cuts the model at path into `count` regions, or as many as it has nodes. INLAY_UNSUPPORTED: a value that is not a
 * tensor crosses an end; the message names it. The caller calls proof_cut_deinit(), also after a failure. */
INLAY_NODISCARD inlay_status proof_cut_make(const char *path, const inlay_options *options, uint32_t count,
                                            proof_cut *out, inlay_diag *diag);
void proof_cut_deinit(proof_cut *cut);
/* Prepares the options of a session whose run will be committed: sets reproducible=cpu, and taps the ends of regions.
 * INLAY_INVALID_ARGUMENT: another value of option reproducible was set. */
INLAY_NODISCARD inlay_status proof_options(const proof_cut *cut, inlay_options *options, inlay_diag *diag);
/* Writes the proof of the last run of the context into `folder`, which is created. model: the hash of its file, which
 * has begun. inputs: [inlay_session_input_count()] values of that run. root: the SHA-256 of the claim, equal on all
 * machines.
 * INLAY_UNSUPPORTED: the results of a node are random. */
INLAY_NODISCARD inlay_status proof_write(const proof_cut *cut, file_hash *model, const char *folder,
                                         const inlay_session *session, inlay_context *context,
                                         inlay_value *const *inputs, const inlay_options *options, char root[65],
                                         inlay_diag *diag);

/* A proof that has been read. */
typedef struct proof_file {
    const char *folder; /* borrowed */
    struct json_t *json;
    char model[PATH_MAX]; /* path of the model */
    char root[65];
    inlay_options *options; /* those of the run, with the places of this machine */
    proof_cut cut;          /* of the model on this machine */
} proof_file;

/* Reads the proof in a folder, and cuts the model. model: its path; NULL = the one of the proof. local: plug-ins, cache
 * and other places of this machine, isa and intra_threads; its other settings have no effect. INLAY_RESULTS_DIFFER:
 * proof.json was changed, or the model is another one. INLAY_INVALID_ARGUMENT: the program or a flag has set one of the
 * other settings. The caller calls proof_deinit(), also after a failure. */
INLAY_NODISCARD inlay_status proof_open(const char *folder, const char *model, const inlay_options *local,
                                        proof_file *out, inlay_diag *diag);
void proof_deinit(proof_file *proof);
/* Computes a region again; *out_nodes: how many nodes it has. INLAY_RESULTS_DIFFER: it does not hold; the message says
 * why. */
INLAY_NODISCARD inlay_status proof_check(const proof_file *proof, uint32_t region, uint32_t *out_nodes,
                                         inlay_diag *diag);
#endif
