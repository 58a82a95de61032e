/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interleaving of a few agents on a few pages and fewer frames. What they do is model.h, over the
 * step machine as it is; here stands only who goes next and what may be chosen.
 */
#ifndef NR
#define NR 2
#endif
#ifndef NR_PAGES
#define NR_PAGES 2
#endif
#ifndef FIRST_START
#define FIRST_START 0
#endif
#ifndef LAST_START
#define LAST_START 8
#endif

c_decl {
\#include "tests/paging/model.h"
}
c_track "&world" "sizeof(struct world)" "Matched"

#define CHOOSE(kind, page)                                         \
	d_step {                                                   \
		c_expr { (may_choose(Pagent->me, kind, page) > 0) } ->   \
		c_code { actor_choose(Pagent->me, kind, page); }   \
	}

proctype agent(byte me)
{
	do
	:: CHOOSE(0, 0)
	:: CHOOSE(0, 1)
	:: CHOOSE(1, 0)
	:: CHOOSE(1, 1)
	:: CHOOSE(2, 0)
	:: CHOOSE(2, 1)
	:: CHOOSE(3, 0)
	:: CHOOSE(3, 1)
	:: CHOOSE(4, 0)
	:: CHOOSE(4, 1)
#if NR_PAGES > 2
	:: CHOOSE(0, 2)
	:: CHOOSE(1, 2)
	:: CHOOSE(2, 2)
	:: CHOOSE(3, 2)
	:: CHOOSE(4, 2)
#endif
	:: d_step {
		c_expr { (may_step(Pagent->me) > 0) } ->
		c_code { actor_step(Pagent->me); }
		c_code [!world.wrong] { ; }
	}
	:: d_step {
		c_expr { (may_end(Pagent->me, false) > 0) } ->
		c_code { actor_end(Pagent->me, false); }
	}
	:: d_step {
		c_expr { (may_end(Pagent->me, true) > 0) } ->
		c_code { actor_end(Pagent->me, true); }
	}
	:: d_step {
		c_expr { (may_quiesce(Pagent->me) > 0) } ->
		c_code { actor_quiesce(Pagent->me); }
	}
	:: d_step {
		c_expr { (may_use(Pagent->me) > 0) } ->
		c_code { actor_use_again(Pagent->me); }
	}
	:: d_step {
		c_expr { (may_advance() > 0) } ->
		c_code { world_advance(); }
	}
	:: d_step {
		c_expr { (may_abort() > 0) } ->
		c_code { world_abort(); }
	}
	:: c_expr { (is_done(Pagent->me) > 0) } -> break
	od
	c_code { world_finish(); }
	c_code [!world.wrong] { ; }
}

init {
	byte start, me;

	do
	:: start < LAST_START -> start++
	:: start >= FIRST_START -> break
	od
	c_code { world_start(Pinit->start); }
	do
	:: me < NR ->
		if
		:: skip
#if LAST_START
		:: c_code { start_online(Pinit->me, 0); }
		:: c_code { start_online(Pinit->me, 1); }
		:: d_step {
			c_expr { (may_start_pinned(Pinit->me, Pinit->start) > 0) } ->
			c_code { start_pinned(Pinit->me); }
		}
#endif
		fi
		me++
	:: else -> break
	od
	atomic {
		start = 0;
		me = 0;
		run agent(0);
		run agent(1);
#if NR > 2
		run agent(2);
#endif
	}
}
