/* shared/signing.h - signatures of models: which files a model has, and that none has changed.
 *
 * The format is that of OpenSSF's model signing with an Ed25519 key: an in-toto statement (version 1) with the
 * SHA-256 digest of each file, in a DSSE envelope. A model is one file with its external data, or a folder with every
 * file below it except the signature. Symbolic links below the folder are refused.
 *
 * Only `inlay` and `inlay-serve` have this code, not libinlay.so: it needs GnuTLS and Jansson. */
#ifndef SHARED_SIGNING_H
#define SHARED_SIGNING_H
#include "inlay/status.h"
#include <stdbool.h>

typedef struct signing_report {
    uint32_t file_count;
    uint64_t bytes;  /* of all files */
    char path[4200]; /* of the signature */
} signing_report;

/* Whether path is a folder. */
bool signing_is_folder(const char *path);

/* Signs the model at path, a file or a folder. others: [other_count] the external data of a file, relative to its
 * folder.
 * key: a file with a private key in PEM. output: the signature's file; NULL = PATH.sig, or model.sig in a folder. */
INLAY_NODISCARD inlay_status signing_write(const char *path, const char *const *others, uint32_t other_count,
                                           const char *key, const char *output, signing_report *out_report,
                                           inlay_diag *diag);

/* Checks that one of the keys signed the model at path and that its files are those of the signature. keys: files with
 * public keys in PEM, separated by commas. signature: its file; NULL as above. INLAY_RESULTS_DIFFER: no; the message
 * names the file and what to do. The files must not change afterwards: they are not kept open. */
INLAY_NODISCARD inlay_status signing_check(const char *path, const char *signature, const char *keys,
                                           signing_report *out_report, inlay_diag *diag);
#endif
