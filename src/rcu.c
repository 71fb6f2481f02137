/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rcu.h"

#ifdef RCU_TSAN
char rcu_tsan_edge;
#endif
