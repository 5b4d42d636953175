/* Conditions that a test stands on. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program with the place and errno if the condition does not hold. */
#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s (errno %d: %s)\n", __FILE__, __LINE__, #condition, \
                    errno, strerror(errno));                                              \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

#endif
