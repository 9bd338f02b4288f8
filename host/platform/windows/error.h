/* error.h - error codes of Windows as values of errno. Private to this folder. */
#ifndef WINDOWS_ERROR_H
#define WINDOWS_ERROR_H

/* Sets errno from GetLastError(); returns -1. */
int fail_as_errno(void);
#endif
