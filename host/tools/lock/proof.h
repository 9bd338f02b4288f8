/* lock/proof.h - runs that another machine can verify in part.
 *
 * The nodes of a model, in execution order, are cut into regions of about equal numbers of nodes, those of the stages
 * of inlay_extract(). Each region is a session of its own, whose inputs have the types and sizes of the tensors that
 * enter it. So neither the optimiser nor a provider sees beyond the ends of a region, and the session depends on the
 * model, the settings and these tensors alone: the machine that makes a run and the one that verifies a region of it
 * open the same session, by the same function.
 *
 * A run with option reproducible=cpu writes a folder: proof.json with a SHA-256 of every tensor that enters or leaves a
 * region, and each of these tensors as a file named by its hash. Any machine with the model computes one region from
 * the tensors that enter it, and compares what leaves it. If all regions hold, the outputs are those of the model for
 * the inputs: sdk/docs/pages/verifying.md. */
#ifndef LOCK_PROOF_H
#define LOCK_PROOF_H
#include "lock/lock.h"
#include "model/model.h"
#include "inlay/inlay.h"
#include <limits.h>

/* The values at the ends of a region, without constants: indexes in the main graph of the file's model. */
typedef struct proof_region {
    uint32_t *inputs, *outputs; /* [input_count], [output_count] */
    uint32_t *sizes;            /* [size_count] those of the inputs that follow from sizes of the model's inputs */
    uint32_t input_count, output_count, size_count;
} proof_region;

/* A model cut into regions, and tensors of a run of it. {0} is none. */
typedef struct proof_run {
    graph_model *model; /* as in the file */
    proof_region *regions;
    uint32_t count;
    inlay_options *options;   /* of the regions' sessions */
    inlay_value **values;     /* [model->main->value_count] a reference each; NULL: not known */
    double create_ms, run_ms; /* times of the regions that were computed */
} proof_run;

/* Cuts the model at path into `count` regions, or as many as it has nodes. options: of the run; reproducible=cpu is set
 * in them. INLAY_INVALID_ARGUMENT: they have another value of it, or an option that concerns the whole model or a
 * provider whose bits are not the same on all machines. The caller calls proof_run_deinit(), also after a failure. */
INLAY_NODISCARD inlay_status proof_run_begin(const char *path, inlay_options *options, uint32_t count, proof_run *out,
                                             inlay_diag *diag);
/* Computes all regions. session describes the model, and may be one that compiles nothing. inputs:
 * [inlay_session_input_count()], NULL for an input with its default. limits: of the whole run. May be called again
 * with other inputs. INLAY_UNSUPPORTED: the results of a node are random, or a value that is not a tensor crosses an
 * end; the message names it. */
INLAY_NODISCARD inlay_status proof_run_make(proof_run *run, const inlay_session *session, inlay_value *const *inputs,
                                            const inlay_run_options *limits, inlay_diag *diag);
/* Output `index` of the model, after proof_run_make(); borrowed. */
inlay_value *proof_run_output(const proof_run *run, uint32_t index);
/* Writes the proof of the run into `folder`, which is created. model: the hash of its file, which has begun. root: the
 * SHA-256 of the claim, equal on all machines. */
INLAY_NODISCARD inlay_status proof_run_write(const proof_run *run, file_hash *model, const char *folder,
                                             const inlay_options *options, char root[65], inlay_diag *diag);
void proof_run_deinit(proof_run *run);

/* A proof that has been read. */
typedef struct proof_file {
    const char *folder; /* borrowed */
    struct json_t *json;
    char model[PATH_MAX]; /* path of the model */
    char root[65];
    proof_run run; /* the model on this machine, with the settings of the proof and the places of this machine */
} proof_file;

/* Reads the proof in a folder, and cuts the model. model: its path; NULL = the one of the proof. local: plug-ins, cache
 * and other places of this machine, isa and intra_threads; its other settings have no effect. INLAY_RESULTS_DIFFER:
 * proof.json was changed, or the model is another one. INLAY_INVALID_ARGUMENT: the program or a flag has set one of the
 * other settings. The caller calls proof_deinit(), also after a failure. */
INLAY_NODISCARD inlay_status proof_open(const char *folder, const char *model, const inlay_options *local,
                                        proof_file *out, inlay_diag *diag);
void proof_deinit(proof_file *proof);
/* Computes a region again; *out_nodes: how many nodes it has. outputs: a folder, which exists, for the tensors that
 * leave it, as NAME.npy; NULL: none. INLAY_RESULTS_DIFFER: it does not hold; the message says why. */
INLAY_NODISCARD inlay_status proof_check(proof_file *proof, uint32_t region, const char *outputs, uint32_t *out_nodes,
                                         inlay_diag *diag);
#endif
