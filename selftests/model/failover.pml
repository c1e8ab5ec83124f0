/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A model of lane failover: the rules of Documentation/failover.rst, for Spin.
 *
 * Two hosts, NQ agg RC QPs, two lanes.  Each QP has one pair of lane QPs in
 * use at a time, replaced by a fresh one (the next epoch) at each failover or
 * failback.  Index i of an array stands for one end of a QP: i = 2 * QP + role,
 * role 0 leads; OTHER(i) is its peer.  Lanes and sessions are shared by the QPs.
 *
 * Every action is one d_step of one process, so that Spin tries all
 * interleavings of: sending and arrival of a packet, begin and end of its
 * execution, arrival of an ack and of READ data, completions of the send and of
 * the receive queue, retransmission, death and return of a lane per direction,
 * removal of its device, notice of a failure, becoming quiet, session messages,
 * broken sessions, timeouts.  All budgets of faults are finite, so every run
 * ends: what Spin calls an invalid end state is a deadlock, a violated assertion
 * an unsafe step.
 *
 * Packets are numbered, not messages: a WRITE is two packets.  Without a B_
 * flag this is the protocol and must pass; each B_ flag takes one rule away and
 * must fail; each W_ flag asserts that something worth reaching is not
 * reached, and must fail too.  run.sh has the list.
 */
#ifndef NQ
#define NQ 1		/* QPs */
#endif
#ifndef NDIE
#define NDIE 1		/* lane deaths: one or both directions of one lane */
#endif
#ifndef NRET
#define NRET 1		/* lane returns */
#endif
#ifndef NBRK
#define NBRK 1		/* session breaks */
#endif
#ifndef NSPUR
#define NSPUR 0		/* false alarms: a good path is declared failed */
#endif
#ifndef NRTX
#define NRTX 0		/* retransmissions while the original is still on its way */
#endif
#ifndef NFB
#define NFB 0		/* failbacks */
#endif
#ifndef NCRASH
#define NCRASH 0	/* host 1 loses its state and comes back empty */
#endif
#ifndef NREM
#define NREM 0		/* devices of a lane removed at one host */
#endif
#ifndef NBUSY
#define NBUSY 0		/* a follower that cannot make its lane QP, for lack of something */
#endif
#ifndef NSWAP
#define NSWAP 0		/* two requests of one QP handled in the other order */
#endif
#ifndef NTO
#define NTO 0		/* failover_timeout fires though a path may yet come */
#endif
#ifndef NDES
#define NDES 0		/* the application destroys a QP that has done its work */
#endif
#ifndef TIMEOUT
#define TIMEOUT (NTO > 0)	/* it fires when no path can come any more */
#endif
#ifndef PSN_MOD
#define PSN_MOD 32	/* 2^24 in reality; at most half of it is outstanding */
#endif
#ifndef PSN_START
#define PSN_START 0
#endif

/* ---- what the applications post: kinds of packets, per role ---- */

#define S  1		/* SEND, one packet, takes one receive */
#define WF 2		/* WRITE, first packet */
#define WL 3		/* WRITE, last: the receiver may look at once and reuse the place */
#define A  4		/* atomic */
#define R  5		/* READ; at most one per role */
#ifndef LOAD
#define LOAD 4
#endif
/* K0(p), K1(p): kind of packet p; SO0, SO1: how many SENDs are before it */
#if LOAD == 1		/* WRITE SEND SEND | SEND */
#define NP0 4
#define NP1 1
#define K0(p) ((p) == 0 -> WF : ((p) == 1 -> WL : S))
#define K1(p) S
#define SO0(p) ((p) - 2)
#define SO1(p) (p)
#define NR0 1		/* receives posted by role 0: the SENDs of role 1 */
#define NR1 2
#elif LOAD == 2		/* SEND atomic | WRITE SEND */
#define NP0 2
#define NP1 3
#define K0(p) ((p) == 0 -> S : A)
#define K1(p) ((p) == 0 -> WF : ((p) == 1 -> WL : S))
#define SO0(p) (p)
#define SO1(p) ((p) - 2)
#define NR0 1
#define NR1 1
#elif LOAD == 3		/* SEND SEND | SEND atomic */
#define NP0 2
#define NP1 2
#define K0(p) S
#define K1(p) ((p) == 0 -> S : A)
#define SO0(p) (p)
#define SO1(p) (p)
#define NR0 1
#define NR1 2
#elif LOAD == 4		/* SEND | SEND: the smallest, for many faults */
#define NP0 1
#define NP1 1
#define K0(p) S
#define K1(p) S
#define SO0(p) (p)
#define SO1(p) (p)
#define NR0 1
#define NR1 1
#elif LOAD == 5		/* WRITE SEND | WRITE SEND */
#define NP0 3
#define NP1 3
#define K0(p) ((p) == 0 -> WF : ((p) == 1 -> WL : S))
#define K1(p) K0(p)
#define SO0(p) ((p) - 2)
#define SO1(p) ((p) - 2)
#define NR0 1
#define NR1 1
#elif LOAD == 6		/* SEND atomic | SEND */
#define NP0 2
#define NP1 1
#define K0(p) ((p) == 0 -> S : A)
#define K1(p) S
#define SO0(p) (p)
#define SO1(p) (p)
#define NR0 1
#define NR1 1
#elif LOAD == 7		/* READ SEND | SEND */
#define READS 1
#define NP0 2
#define NP1 1
#define K0(p) ((p) == 0 -> R : S)
#define K1(p) S
#define SO0(p) ((p) - 1)
#define SO1(p) (p)
#define NR0 1
#define NR1 1
#elif LOAD == 8		/* SEND READ WRITE SEND | nothing */
#define READS 1
#define NP0 5
#define NP1 0
#define K0(p) ((p) == 1 -> R : ((p) == 2 -> WF : ((p) == 3 -> WL : S)))
#define K1(p) S
#define SO0(p) ((p) == 0 -> 0 : 1)
#define SO1(p) 0
#define NR0 0
#define NR1 2
#elif LOAD == 9		/* READ atomic SEND | nothing */
#define READS 1
#define NP0 3
#define NP1 0
#define K0(p) ((p) == 0 -> R : ((p) == 1 -> A : S))
#define K1(p) S
#define SO0(p) ((p) - 2)
#define SO1(p) 0
#define NR0 0
#define NR1 1
#elif LOAD == 10	/* six SENDs | nothing: more than PSN_MOD of 4 */
#define NP0 6
#define NP1 0
#define K0(p) S
#define K1(p) S
#define SO0(p) (p)
#define SO1(p) 0
#define NR0 0
#define NR1 6
#elif LOAD == 11	/* SEND | nothing: for two QPs */
#define NP0 1
#define NP1 0
#define K0(p) S
#define K1(p) S
#define SO0(p) (p)
#define SO1(p) 0
#define NR0 0
#define NR1 1
#endif
#ifndef READS
#define READS 0
#endif

#define ROLE(i) ((i) & 1)
#define OTHER(i) ((i) ^ 1)
#define LEADS(i) (ROLE(i) == 0)
#define QP(i) ((i) >> 1)
/* The first QP is led by host 0, the second by host 1. */
#define HOST(i) (((i) & 1) ^ ((i) >> 1))

#define NP(i) (ROLE(i) == 0 -> NP0 : NP1)
#define NR(i) (ROLE(i) == 0 -> NR0 : NR1)
#define KIND(i, p) (ROLE(i) == 0 -> K0(p) : K1(p))
#define SO(i, p) (ROLE(i) == 0 -> SO0(p) : SO1(p))

/* ---- states and messages ---- */

/* of a lane QP */
#define INIT 0
#define RTS 1
#define ERR 2		/* something may still be executing or unprocessed */
#define QUIET 3

/* of the protocol */
#define RUN 0
#define FAIL 1		/* path failed, becoming quiet */
#define FWAIT 2		/* own FENCE is outstanding */
#define FDONE 3		/* classified */
#define ATT 4		/* leader: ATTACH is outstanding */
#define PLAN 5		/* leader: MOVE is outstanding, posting stopped */
#define DEAD 6		/* the agg QP is in error */

#define FENCE 1		/* epoch, frozen state */
#define FREP 2		/* epoch, frozen state */
#define ATTACH 3	/* epoch + 1, frozen state of epoch, lane */
#define AREP 4		/* epoch */
#define AREF 5		/* REFUSED: the QP is in error here */
#define DETACH 6	/* epoch, frozen state: my QP is in error */
#define MOVE 7		/* epoch, number of the attempt */
#define BUSY 8		/* epoch */
#define GONE 9		/* no such QP here, another instance */
#define NOLANE 10	/* epoch: no lane QP for this one, ever */
#define NONE 255	/* instead of an outstanding request: never ask again */

/* ---- state ---- */

bit up[4] = 1;			/* [2 * lane + host]: what host sends arrives */
bit gone[4];			/* [2 * lane + host]: no device there any more */
#define LIVE(l) (up[2 * (l)] && up[2 * (l) + 1])
#define USABLE(l) (LIVE(l) && !gone[2 * (l)] && !gone[2 * (l) + 1])

#define NI (2 * NQ)
#define W(l, i) (NI * (l) + (i))
chan wire[2 * NI] = [2] of { byte, byte, byte };	/* lane QP pair, PSN, packet (ghost) */
byte aq[2 * NI], av[2 * NI];	/* newest ack on the way: pair + 1 (0: none), expected PSN */
#if READS
byte dq[2 * NI], dv[2 * NI];	/* the same for READ data */
bit got[NI];			/* the data has arrived */
#endif

chan sreq[NI] = [2] of { byte, byte, byte, byte };	/* requests of i: type, epoch, value, lane */
chan srep[NI] = [2] of { byte, byte, byte, byte };	/* replies to i */
bit lost[NI];			/* the connection broke since the outstanding request was sent */
byte wreq[NI];			/* the outstanding request */

byte ps[NI], qs[NI];		/* protocol, lane QP */
byte ep[NI], qid[NI], pl[NI];	/* epoch; pair and lane of the lane QP */

/*
 * Requester.  The packets of an epoch are counted from 0; the first is packet
 * bs.  When bs is a READ that runs again, packets bs + 1 .. bn - 1 were
 * executed in an earlier epoch and are left out; else bn is bs + 1.
 */
byte bs[NI], bn[NI];
#define ABS(i, n) ((n) == 0 -> bs[i] : bn[i] + (n) - 1)
#define COUNT(i) (bs[i] >= NP(i) -> 0 : 1 + NP(i) - bn[i])
byte una[NI], nxt[NI], sc[NI];	/* acknowledged, sent, send completions processed */
byte cp[NI];			/* packets completed to the application */
bit told[NI];			/* in error: the peer knows that this epoch has ended */

/* Responder */
byte rq[NI] = PSN_START;	/* expected PSN */
byte bz[NI];			/* packet + 1 that is being executed */
byte fz[NI];			/* frozen state: rq relative to the start, modulo PSN_MOD */
byte oldfz[NI], oldep[NI];	/* of the epoch before, for ATTACH */
byte top[NI];			/* leader: the newest epoch it has offered */
byte no[NI];			/* follower: the newest epoch it has answered NOLANE */
byte rh[NI], rn[NI];		/* receives of the lane QP: next, end */
byte rcq[NI];			/* receive completions not processed */
byte dl[NI];			/* receives completed to the application */

byte ndie, nret, nbrk, nspur, nrtx, nfb, ncrash, nrem, nswap, nto, ndes, nbusy;

/* ghosts */
byte ex[NI];			/* bit mask of packets of i executed at its peer */
byte gs[NI];			/* SENDs executed at i */
bit sealed[NI];			/* i's errors were reported knowing what its peer had executed */
bit excuse[NQ];			/* errors are allowed: an atomic's answer lost, a timeout, state lost */
bit starved[NQ];		/* the follower will not get its next lane QP */
bit inst;			/* host 1 is another instance */
bit planned[NQ];		/* this epoch is left by agreement: no error may come of it */
byte refused[NQ];		/* follower: last attempt to move that it refused */

byte t, e, v, l2, k, q, x, y, n;	/* scratch of one step, 0 between steps */

#define REL(psn) (((psn) + PSN_MOD - PSN_START) % PSN_MOD)
#define PSN(cnt) ((PSN_START + (cnt)) % PSN_MOD)
#ifdef B_PSN_WRAP
#define UNWRAP(i, rel) (rel)
#else
#define UNWRAP(i, rel) (una[i] + ((rel) + PSN_MOD - una[i] % PSN_MOD) % PSN_MOD)
#endif
#define AGREE(i) (inst || (ps[i] == DEAD) == (ps[OTHER(i)] == DEAD))
#define DONE(i) (cp[i] == NP(i) && (excuse[QP(i)] || dl[i] == NR(i)) && AGREE(i))

#ifdef B_QPN_REUSE
#define MATCH(a, b) (1)		/* the new lane QP got the old number and start PSN */
#else
#define MATCH(a, b) ((a) == (b))
#endif
#ifdef B_CROSS_ATTACH
#define QID(i) (2 * ep[i] + who)	/* both send ATTACH, each makes a pair of its own */
byte who;
#else
#define QID(i) (ep[i])
#endif
#ifdef B_PLAN_REPEAT
#define PREF(i, v) (0)
#else
#define PREF(i, v) ((v) <= refused[QP(i)])
#endif

/* ---- data path ---- */

inline a_send(i)
{
	(ps[i] == RUN && qs[i] == RTS && nxt[i] < COUNT(i) && len(wire[W(pl[i], i)]) < 2 &&
	 nxt[i] - una[i] < PSN_MOD / 2);
	k = ABS(i, nxt[i]);
	assert(k >= cp[i]);	/* nothing whose end was reported is sent, no error either */
	if
	:: up[2 * pl[i] + HOST(i)] -> wire[W(pl[i], i)]!qid[i],PSN(nxt[i]),k
	:: else
	fi;
	printf("%d: send pkt %d psn %d ep %d lane %d\n", i, k, PSN(nxt[i]), ep[i], pl[i]);
	nxt[i]++
}

inline ack(l, o)
{
	if
	:: up[2 * (l) + HOST(o)] -> aq[W(l, o)] = qid[o] + 1; av[W(l, o)] = rq[o]
	:: else
	fi
}

/* The data of the READ with this PSN; it is an ack of all up to there. */
inline data(l, o, psn)
{
#if READS
	if
	:: up[2 * (l) + HOST(o)] -> dq[W(l, o)] = qid[o] + 1; dv[W(l, o)] = psn
	:: else
	fi
#else
	assert(0)
#endif
}

/* A packet of i arrives on lane l and begins to execute; ERR may come before a_fin(). */
inline a_rx(l, i)
{
	(up[2 * (l) + HOST(i)] && len(wire[W(l, i)]) > 0 && bz[OTHER(i)] == 0);
	wire[W(l, i)]?q,v,k;
	if
	:: qs[OTHER(i)] == RTS && pl[OTHER(i)] == l && MATCH(q, qid[OTHER(i)]) ->
		x = (rq[OTHER(i)] + PSN_MOD - v) % PSN_MOD;	/* how far behind */
		if
		:: x == 0 && KIND(i, k) == S && rh[OTHER(i)] == rn[OTHER(i)] ->
			printf("%d: RNR for pkt %d\n", OTHER(i), k);
			assert(0)	/* the application had posted a receive */
		:: x == 0 && !(KIND(i, k) == S && rh[OTHER(i)] == rn[OTHER(i)]) ->
			bz[OTHER(i)] = k + 1;
			printf("%d: begins pkt %d psn %d pair %d\n", OTHER(i), k, v, q)
		:: x > 0 && x <= PSN_MOD / 2 ->	/* a duplicate */
			if
			:: KIND(i, k) == R -> data(l, OTHER(i), v)
			:: else -> ack(l, OTHER(i))
			fi
		:: else
		fi
	:: else -> printf("%d: drops pkt %d pair %d\n", OTHER(i), k, q)
	fi
}

inline a_fin(i)
{
	(bz[OTHER(i)] > 0);
	k = bz[OTHER(i)] - 1;
	bz[OTHER(i)] = 0;
	printf("%d: EXECUTED pkt %d psn %d\n", OTHER(i), k, rq[OTHER(i)]);
	assert(!sealed[i]);
	assert((ex[i] & ((1 << k) - 1)) == ((1 << k) - 1));	/* in order */
	if
	:: KIND(i, k) == S ->
		assert(SO(i, k) == gs[OTHER(i)]);	/* once */
		assert(rh[OTHER(i)] == SO(i, k));	/* into the receive meant for it */
		gs[OTHER(i)]++;
		rh[OTHER(i)]++;
		rcq[OTHER(i)]++
	:: KIND(i, k) == WF -> assert(!(ex[i] & (1 << (k + 1))))
	:: KIND(i, k) == WL || KIND(i, k) == A -> assert(!(ex[i] & (1 << k)))
	:: else			/* a READ may run as often as it likes */
	fi;
	ex[i] = ex[i] | (1 << k);
	x = rq[OTHER(i)];
	rq[OTHER(i)] = (x + 1) % PSN_MOD;
	if
	:: qs[OTHER(i)] == RTS && KIND(i, k) == R -> data(pl[OTHER(i)], OTHER(i), x)
	:: qs[OTHER(i)] == RTS && KIND(i, k) != R -> ack(pl[OTHER(i)], OTHER(i))
	:: else
	fi
}

/* All before count n is acknowledged, but no READ without its data. */
inline acked(i, to)
{
	x = to;
#if READS
	do
	:: una[i] < x && (KIND(i, ABS(i, una[i])) != R || got[i]) -> una[i]++
	:: else -> break
	od;
#else
	una[i] = x;
#endif
	if
	:: nxt[i] < una[i] -> nxt[i] = una[i]
	:: else
	fi;
	printf("%d: acked up to %d of ep %d\n", i, una[i], ep[i])
}

inline a_ack(l, i)
{
	(up[2 * (l) + HOST(OTHER(i))] && aq[W(l, OTHER(i))] > 0);
	n = UNWRAP(i, REL(av[W(l, OTHER(i))]));
	if
	:: qs[i] == RTS && pl[i] == l && MATCH(aq[W(l, OTHER(i))] - 1, qid[i]) &&
	   n > una[i] && n <= una[i] + PSN_MOD / 2 && n <= COUNT(i) -> acked(i, n)
	:: else
	fi;
	aq[W(l, OTHER(i))] = 0;
	av[W(l, OTHER(i))] = 0
}

#if READS
inline a_data(l, i)
{
	(up[2 * (l) + HOST(OTHER(i))] && dq[W(l, OTHER(i))] > 0);
	n = UNWRAP(i, REL(dv[W(l, OTHER(i))]));
	if
	:: qs[i] == RTS && pl[i] == l && dq[W(l, OTHER(i))] - 1 == qid[i] && n < COUNT(i) &&
	   n >= una[i] && n < una[i] + PSN_MOD / 2 ->
		assert(KIND(i, ABS(i, n)) == R);
		got[i] = 1;
		printf("%d: data of pkt %d\n", i, ABS(i, n));
		acked(i, n + 1)
	:: else
	fi;
	dq[W(l, OTHER(i))] = 0;
	dv[W(l, OTHER(i))] = 0
}
#endif

/* Success to the application: executed, and a READ has its data. */
inline success(i, p)
{
	assert(ex[i] & (1 << (p)));
#if READS
	assert(KIND(i, p) != R || got[i]);
#endif
	printf("%d: SUCCESS pkt %d\n", i, p)
}

/* One send completion; it brings with it what was executed behind a READ. */
inline a_scqe(i)
{
	(sc[i] < una[i]);
	k = ABS(i, sc[i]);
	assert(k == cp[i]);	/* in order, once */
	success(i, k);
	cp[i]++;
	sc[i]++;
	do
	:: cp[i] < bn[i] -> success(i, cp[i]); cp[i]++
	:: else -> break
	od
}

inline a_rcqe(i)
{
	(rcq[i] > 0);
	printf("%d: RECV %d\n", i, dl[i]);
	rcq[i]--;
	dl[i]++;
	assert(dl[i] <= gs[i])
}

#if READS
#define NODATA(i) (dq[W(pl[i], OTHER(i))] == 0)
#else
#define NODATA(i) (1)
#endif
/* Ack timeout with nothing left on the way, on a path that can answer. */
inline a_retx(i)
{
	(ps[i] == RUN && qs[i] == RTS && una[i] < nxt[i] && LIVE(pl[i]) &&
	 len(wire[W(pl[i], i)]) == 0 && aq[W(pl[i], OTHER(i))] == 0 && NODATA(i) &&
	 bz[OTHER(i)] == 0 && qs[OTHER(i)] == RTS && qid[OTHER(i)] == qid[i] &&
	 pl[OTHER(i)] == pl[i]);
	printf("%d: retransmit from %d\n", i, una[i]);
	nxt[i] = una[i]
}

inline a_retx_early(i)
{
	(nrtx < NRTX && ps[i] == RUN && qs[i] == RTS && una[i] < nxt[i]);
	nrtx++;
	printf("%d: early retransmit from %d\n", i, una[i]);
	nxt[i] = una[i]
}

/* ---- faults ---- */

inline purge_wire(l, h)
{
	x = 0;
	do
	:: x < NI && HOST(x) == (h) ->
		do
		:: len(wire[W(l, x)]) > 0 -> wire[W(l, x)]?q,v,k
		:: else -> break
		od;
		aq[W(l, x)] = 0;
		av[W(l, x)] = 0;
#if READS
		dq[W(l, x)] = 0;
		dv[W(l, x)] = 0;
#endif
		x++
	:: x < NI && HOST(x) != (h) -> x++
	:: else -> break
	od
}

/* dir: what host 0 or 1 sends, or 2 for both; packets on the way are lost, or arrive after all. */
inline a_die(l, dir, purge)
{
	(ndie < NDIE && ((dir) == 2 -> LIVE(l) : up[2 * (l) + ((dir) & 1)]));
	ndie++;
	printf("*** lane %d dies, direction %d, purge %d\n", l, dir, purge);
	if
	:: (dir) != 1 ->
		up[2 * (l)] = 0;
		if
		:: purge -> purge_wire(l, 0)
		:: else
		fi
	:: else
	fi;
	if
	:: (dir) != 0 ->
		up[2 * (l) + 1] = 0;
		if
		:: purge -> purge_wire(l, 1)
		:: else
		fi
	:: else
	fi
}

inline a_ret(l)
{
	(nret < NRET && !LIVE(l));
	nret++;
	printf("*** lane %d returns\n", l);
	up[2 * (l)] = 1;
	up[2 * (l) + 1] = 1
}

/* The session that host h opened breaks: every QP has to ask again. */
inline a_brk(h, purge)
{
	(nbrk < NBRK && ((HOST(0) == h && wreq[0] != 0 && wreq[0] != NONE && !lost[0]) ||
			 (HOST(1) == h && wreq[1] != 0 && wreq[1] != NONE && !lost[1])
#if NQ > 1
			 || (HOST(2) == h && wreq[2] != 0 && wreq[2] != NONE && !lost[2]) ||
			 (HOST(3) == h && wreq[3] != 0 && wreq[3] != NONE && !lost[3])
#endif
			));
	nbrk++;
	printf("*** session of host %d breaks, purge %d\n", h, purge);
	x = 0;
	do
	:: x < NI && HOST(x) == h ->
		if
		:: wreq[x] != 0 && wreq[x] != NONE -> lost[x] = 1
		:: else
		fi;
		if
		:: purge ->
			do
			:: len(sreq[x]) > 0 -> sreq[x]?t,e,v,l2
			:: else -> break
			od;
			do
			:: len(srep[x]) > 0 -> srep[x]?t,e,v,l2
			:: else -> break
			od
		:: else
		fi;
		x++
	:: x < NI && HOST(x) != h -> x++
	:: else -> break
	od
}

/* Requests are handled by work items: the second may overtake the first. */
inline a_swap(i)
{
	(nswap < NSWAP && len(sreq[i]) == 2);
	nswap++;
	printf("*** the requests of %d change places\n", i);
	sreq[i]?t,e,v,l2;
	sreq[i]!t,e,v,l2
}

/* ---- a path fails; quiet ---- */

inline fail(i)
{
#ifdef B_RQ_BEFORE_ERR
	fz[i] = REL(rq[i]);
#endif
	qs[i] = ERR;
	ps[i] = FAIL
}

inline a_detect(i)
{
	((ps[i] == RUN || ps[i] == PLAN) && qs[i] == RTS &&
	 (!LIVE(pl[i]) || (una[i] < nxt[i] &&
			   (qs[OTHER(i)] == ERR || qs[OTHER(i)] == QUIET ||
			    qid[OTHER(i)] != qid[i] || pl[OTHER(i)] != pl[i]))));
	printf("%d: path failure noticed, ep %d lane %d\n", i, ep[i], pl[i]);
	fail(i)
}

inline a_spur(i)
{
	(nspur < NSPUR && (ps[i] == RUN || ps[i] == PLAN) && qs[i] == RTS);
	nspur++;
	printf("%d: false alarm, ep %d lane %d\n", i, ep[i], pl[i]);
	fail(i)
}

/*
 * The driver of host h's lane goes: all its lane QPs become quiet and are
 * destroyed.  An ATTACH that names the lane stays outstanding (rule 14).
 */
inline a_remove(h, l)
{
	(nrem < NREM && !gone[2 * (l) + h]);
	nrem++;
	gone[2 * (l) + h] = 1;
	printf("*** lane %d is removed at host %d\n", l, h);
	x = 0;
	do
	:: x < NI && HOST(x) == h && pl[x] == l && qs[x] == RTS -> fail(x); x++
	:: x < NI && HOST(x) == h && pl[x] == l && qs[x] == INIT ->
		qs[x] = ERR;	/* ps stays ATT or DEAD */
		x++
	:: x < NI && !(HOST(x) == h && pl[x] == l && (qs[x] == RTS || qs[x] == INIT)) -> x++
	:: else -> break
	od
}

/* Normal destroy: quiet first, and what is kept answers for the QP until its peer knows. */
inline a_destroy(i)
{
	(ndes < NDES && ps[i] == RUN && qs[i] == RTS && cp[i] == NP(i) && dl[i] == NR(i));
	ndes++;
	excuse[QP(i)] = 1;
	printf("*** %d is destroyed\n", i);
	qs[i] = ERR;
	ps[i] = DEAD
}

#ifdef B_RESUME
inline a_resume(i)		/* after a false alarm: the old pair, set up once more */
{
	(ps[i] == FAIL && qs[i] == QUIET);
	newqp(i, ep[i], pl[i]);
	qs[i] = RTS;
	ps[i] = RUN
}
#endif

#ifdef B_REMOVE_NO_DRAIN
#define REMOVED(i) (gone[2 * pl[i] + HOST(i)])
#else
#define REMOVED(i) (0)
#endif
#ifdef B_RQ_NO_DRAIN
#define BZ_OK(i) (1)
#else
#define BZ_OK(i) (bz[i] == 0)		/* the responder is idle: the marker receive was flushed */
#endif
#ifdef B_RCQ_NOT_DRAINED
#define RCQ_OK(i) (1)
#else
#define RCQ_OK(i) (rcq[i] == 0 || REMOVED(i))
#endif
#ifdef B_SCQ_NOT_DRAINED
#define SCQ_OK(i) (1)
#else
#define SCQ_OK(i) (sc[i] == una[i])
#endif
inline a_quiet(i)
{
	(qs[i] == ERR && BZ_OK(i) && RCQ_OK(i) && SCQ_OK(i));
	qs[i] = QUIET;
#ifndef B_RQ_BEFORE_ERR
	fz[i] = REL(rq[i]);
#endif
#if NREM
	if
	:: gone[2 * pl[i] + HOST(i)] ->	/* destroyed: nothing of the lane QP is left */
		rq[i] = PSN_START;
		rcq[i] = 0;
#ifdef B_REMOVE_FORGETS
		fz[i] = 0;
#endif
	:: else
	fi;
#endif
	printf("%d: quiet, ep %d, executed %d\n", i, ep[i], fz[i])
}

/* ---- classification ---- */

/*
 * The agg QP is in error: what is left completes with errors, in order.
 * known: the peer is quiet in this epoch and what it executed has succeeded;
 * what gets an error was not executed and never will be.
 */
inline kill(i, known)
{
	assert(excuse[QP(i)]);
	printf("%d: ERROR from pkt %d on\n", i, cp[i]);
	if
	:: known ->
		sealed[i] = 1;
		told[i] = 1
	:: else
	fi;
	if
	:: qs[i] == INIT -> qs[i] = QUIET	/* never ran: executed 0 */
	:: else
	fi;
	cp[i] = NP(i);
	ps[i] = DEAD
}

/* Nothing from the first packet to run again on was executed, but for part of a WRITE. */
inline unexecuted(i)
{
	x = (bn[i] > bs[i] + 1 -> bn[i] : bs[i]);
	assert((ex[i] >> x) == 0 || (KIND(i, x) == WF && (ex[i] >> x) == 1))
}

/* rel: the peer's frozen state.  Sets what the next epoch begins with. */
inline classify(i, rel)
{
	assert(qs[i] == QUIET);
	n = UNWRAP(i, rel);
#ifdef HARM
	if	/* impossible: make nothing of it, so that only real harm is found */
	:: n > COUNT(i) -> n = una[i]
	:: else
	fi;
#else
	assert(n >= una[i] && n <= COUNT(i));
#endif
	if
	:: n > 0 && KIND(i, ABS(i, n - 1)) == WF -> n--	/* part of a WRITE: from its start */
	:: else
	fi;
#ifdef B_REPLAY
	n = una[i];		/* all that is not acknowledged runs again */
#endif
	printf("%d: classify ep %d: %d executed, completed up to %d\n", i, ep[i], n, cp[i]);
	ps[i] = FDONE;
	k = sc[i];
	do
#ifdef B_READ_DONE
	:: k < n && KIND(i, ABS(i, k)) != A ->
#else
	:: k < n && KIND(i, ABS(i, k)) != A && KIND(i, ABS(i, k)) != R ->
#endif
		success(i, cp[i]);
		cp[i]++;
		k++
	:: else -> break
	od;
	y = 0;
	x = k;
	do
	:: x < n ->
		if
#ifndef B_ATOMIC_AGAIN
		:: KIND(i, ABS(i, x)) == A -> y = 1	/* executed, its answer is lost */
#endif
		:: else
		fi;
		x++
	:: else -> break
	od;
	if
	:: y == 1 ->
		assert(!planned[QP(i)]);
		excuse[QP(i)] = 1;
		kill(i, 1)
	:: y == 0 && k < n ->	/* a READ runs again, what was executed behind it does not */
#ifdef B_READ_AGAIN_ALL
		bn[i] = cp[i] + 1;
#else
		bn[i] = bn[i] + n - 1;
#endif
		bs[i] = cp[i]
	:: y == 0 && k >= n && n == 0 && bn[i] > bs[i] + 1 -> skip	/* the READ once more */
	:: y == 0 && k >= n && !(n == 0 && bn[i] > bs[i] + 1) ->
		bs[i] = bn[i] + n - 1;
		bn[i] = bs[i] + 1;
		cp[i] = bs[i]
	fi
}

inline ask(i, type)
{
	wreq[i] = type;
	lost[i] = 0;
	if
	:: len(sreq[i]) < 2 ->
		if
		:: type == FENCE || type == DETACH -> sreq[i]!type,ep[i],fz[i],0
		:: type == ATTACH -> sreq[i]!ATTACH,ep[i],oldfz[i],pl[i]
		:: type == MOVE -> sreq[i]!MOVE,ep[i],nfb,0
		fi
	:: else -> lost[i] = 1	/* no room: try again */
	fi
}

inline answered(i)
{
	wreq[i] = 0;
	lost[i] = 0
}

#ifdef B_TO_SILENT
#define MUST_TELL(i) (0)
#else
#define MUST_TELL(i) (ps[i] == DEAD && !LEADS(i) && !told[i] && wreq[i] == 0)
#endif
#ifdef B_FENCE_EARLY
#define FENCE_OK(i) (1)
#else
#define FENCE_OK(i) (qs[i] == QUIET)
#endif
inline a_fence(i)
{
	(((ps[i] == FAIL && (wreq[i] == 0 || wreq[i] == MOVE)) || MUST_TELL(i)) &&
	 FENCE_OK(i) && len(sreq[i]) < 2);
#ifdef B_FENCE_EARLY
	if
	:: qs[i] == ERR -> fz[i] = REL(rq[i])
	:: else
	fi;
#endif
	printf("%d: sends FENCE ep %d executed %d\n", i, ep[i], fz[i]);
	if
	:: ps[i] == FAIL -> ps[i] = FWAIT
	:: else
	fi;
	ask(i, FENCE)
}

inline a_retry(i)
{
	(lost[i] && wreq[i] != 0 && len(sreq[i]) < 2);
	printf("%d: reconnects, repeats request %d\n", i, wreq[i]);
#ifdef B_ATTACH_CHANGED
	if	/* the repeated ATTACH names another lane under the same epoch */
	:: wreq[i] == ATTACH && LIVE(1 - pl[i]) -> pl[i] = 1 - pl[i]
	:: else
	fi;
#endif
	ask(i, wreq[i])
}

/* The lane QP of epoch E; receives are posted before it can receive. */
inline newqp(i, E, lane)
{
	oldfz[i] = fz[i];
	oldep[i] = ep[i];
	ep[i] = E;
	pl[i] = lane;
	planned[QP(i)] = 0;
	told[i] = 0;
	qid[i] = QID(i);
	if
	:: bn[i] <= bs[i] + 1 ->
		bs[i] = cp[i];
		bn[i] = cp[i] + 1
	:: else
	fi;
	una[i] = 0;
	nxt[i] = 0;
	sc[i] = 0;
	rq[i] = PSN_START;
	fz[i] = 0;
	rh[i] = dl[i];
#ifdef B_LATE_RECV
	rn[i] = dl[i]
#else
	rn[i] = NR(i)
#endif
}

inline a_starve(i)
{
	(nbusy < NBUSY && !starved[QP(i)]);
	nbusy++;
	starved[QP(i)] = 1;
	printf("*** %d will not get a lane QP\n", OTHER(i))
}

inline a_postrecv(i)	/* only with B_LATE_RECV */
{
	(rn[i] < NR(i) && qs[i] == RTS);
	rn[i] = NR(i)
}

#ifdef B_ATTACH_EARLY
#define ATTACH_OK(i) (ps[i] == FDONE || ps[i] == FWAIT)
#else
#define ATTACH_OK(i) (ps[i] == FDONE)
#endif
inline a_attach(i, lane)
{
	(ATTACH_OK(i) && USABLE(lane) && len(sreq[i]) < 2 && top[i] < 10);
	printf("%d: sends ATTACH ep %d lane %d\n", i, top[i] + 1, lane);
#ifndef HARM
	/* No more epochs than faults: recovery does not feed itself. */
	assert(top[i] < ndie + nspur + nfb + nrem + ndes + nbusy);
#endif
#ifdef B_CROSS_ATTACH
	who = ROLE(i);
#endif
	top[i]++;
	newqp(i, top[i], lane);
	qs[i] = INIT;
	ps[i] = ATT;
#ifdef B_LEADER_EARLY
	qs[i] = RTS;
	ps[i] = RUN;
#endif
	ask(i, ATTACH)
}

#ifdef B_ATTACH_ABANDON
inline a_abandon(lane)	/* the leader gives an unanswered ATTACH up and tries the next epoch */
{
	(ps[0] == ATT && lost[0] && LIVE(lane) && len(sreq[0]) < 2 && ep[0] < 10);
	printf("0: abandons ATTACH ep %d, sends ATTACH ep %d lane %d\n", ep[0], ep[0] + 1, lane);
	top[0] = ep[0] + 1;
	newqp(0, top[0], lane);
	ask(0, ATTACH)
}
#endif

/* A leader in error; a DETACH replaces its FENCE, but never its ATTACH. */
inline a_detach(i)
{
#ifdef B_NO_DETACH
	(0);
#endif
	(ps[i] == DEAD && (wreq[i] == 0 || wreq[i] == FENCE) && qs[i] == QUIET && len(sreq[i]) < 2);
	printf("%d: sends DETACH ep %d\n", i, ep[i]);
	ask(i, DETACH)
}

/* ---- failover_timeout ---- */

#define PATHLESS(l) (gone[2 * (l)] || gone[2 * (l) + 1] || (!LIVE(l) && nret >= NRET))
#define NOPATH (PATHLESS(0) && PATHLESS(1))
#ifdef B_TO_NOT_QUIET
#define TO_QUIET(i) (1)
#else
#define TO_QUIET(i) (qs[i] == QUIET || qs[i] == INIT)
#endif
inline a_timeout(i)
{
	((nto < NTO || NOPATH) && ps[i] >= FAIL && ps[i] <= ATT && TO_QUIET(i));
	printf("*** failover_timeout of %d, state %d\n", i, ps[i]);
	if
	:: nto < NTO -> nto++
	:: else
	fi;
	excuse[QP(i)] = 1;
	if
	:: ps[i] == FDONE || ps[i] == ATT ->
		unexecuted(i);
#ifdef B_TO_WITHDRAW
		answered(i);
#endif
		kill(i, 1)
	:: else -> kill(i, 0)
	fi
}

/* ---- session: a request of i arrives at its peer o ---- */

#ifdef B_NO_EPOCH_REQ
#define EPEQ(a, b) (1)		/* a FENCE is obeyed whatever its epoch */
#define EPLT(a, b) (0)
#else
#define EPEQ(a, b) ((a) == (b))
#define EPLT(a, b) ((a) < (b))
#endif
#ifdef B_NO_EPOCH_REP
#define EPREP(a, b) (1)		/* an answer to a FENCE is believed whatever its epoch */
#else
#define EPREP(a, b) ((a) == (b))
#endif
#ifdef B_NO_CARRY
#define NOCARRY_WAIT(i, o) && !(sreq[i]?[ATTACH,e,v,l2] && (ps[o] == FAIL || ps[o] == FWAIT))
#else
#define NOCARRY_WAIT(i, o)
#endif
#ifdef B_RQ_TWICE
#define FROZEN(i) REL(rq[i])	/* asked of the lane QP again for each answer */
#else
#define FROZEN(i) fz[i]
#endif

/* The leader's pair of an unanswered ATTACH whose lane was removed counts too. */
#define FENCING(i) (ps[i] == FAIL || ps[i] == FWAIT || ps[i] == ATT)

inline rx_fence(i, o)
{
	if
	:: EPLT(e, ep[o]) -> printf("%d: stale FENCE ep %d\n", o, e)
	:: EPEQ(e, ep[o]) ->
		if
		:: qs[o] == RTS || qs[o] == INIT ->	/* notice of a failure */
#ifdef B_ANSWER_LIVE
			srep[i]!FREP,ep[o],REL(rq[o]),0
#else
			printf("%d: FENCE ep %d, not noticed yet\n", o, e);
			fail(o);
			if
			:: wreq[o] == ATTACH -> answered(o)
			:: else
			fi;
			q = 1		/* answer when quiet */
#endif
#ifdef B_NO_TOMBSTONE
		:: ps[o] == DEAD && qs[o] == QUIET -> srep[i]!GONE,e,0,0
		:: ps[o] != DEAD && qs[o] == QUIET ->
#else
		:: qs[o] == QUIET ->
#endif
			printf("%d: answers FENCE ep %d: executed %d\n", o, e, FROZEN(o));
			srep[i]!FREP,ep[o],FROZEN(o),0;
			told[o] = 1;
#ifndef B_NO_CARRY
			if
			:: FENCING(o) ->
				answered(o);
				classify(o, v)
			:: ps[o] == DEAD && wreq[o] == ATTACH -> answered(o)
			:: else
			fi
#endif
		fi
	:: !EPEQ(e, ep[o]) && !EPLT(e, ep[o]) -> assert(0)	/* must not happen */
	fi
}

inline rx_move(i, o)
{
	if
	:: e == ep[o] && qs[o] == RTS && ps[o] == RUN ->
		if
		:: una[o] < nxt[o] || sc[o] < una[o] || PREF(o, v) ->
			refused[QP(o)] = v;
			srep[i]!BUSY,e,0,0
		:: else ->
			planned[QP(o)] = 1;
			printf("%d: agrees to move from ep %d\n", o, e);
			fail(o);
			q = 1
		fi
	:: e == ep[o] && qs[o] == QUIET -> srep[i]!FREP,e,fz[o],0
	:: else -> srep[i]!BUSY,e,0,0
	fi
}

inline rx_attach(i, o)
{
	if
	:: e < ep[o] -> printf("%d: stale ATTACH ep %d\n", o, e)
	:: e == ep[o] ->
#ifdef B_ATTACH_TWICE
		newqp(o, e, l2);	/* every ATTACH makes a fresh lane QP */
		qs[o] = RTS;
		ps[o] = RUN;
#endif
#ifdef B_CROSS_ATTACH
		if
		:: ps[o] == ATT ->	/* crossing: answer the peer's, ours is still pending */
			who = ROLE(i);
			newqp(o, e, l2);
			qs[o] = RTS
		:: else
		fi;
#endif
		printf("%d: repeats the reply to ATTACH ep %d\n", o, e);
		srep[i]!AREP,e,0,0
#if defined(B_ATTACH_ABANDON) || defined(B_ANSWER_LIVE)
	:: e > ep[o] && qs[o] != QUIET ->
		fail(o);
		q = 1
	:: e > ep[o] && qs[o] == QUIET ->
#else
	:: e > ep[o] && e <= no[o] ->
		printf("%d: refuses ATTACH ep %d again\n", o, e);
		srep[i]!NOLANE,e,0,0
	:: e > ep[o] && e > no[o] ->
#endif
		assert(qs[o] == QUIET);
		if
		:: ps[o] == FAIL || ps[o] == FWAIT ->
#ifdef B_NO_CARRY
			assert(0);	/* NOCARRY_WAIT */
#endif
			answered(o);
			classify(o, v)
		:: else
		fi;
		if
		:: ps[o] == DEAD ->
			told[o] = 1;
			if
			:: wreq[o] == FENCE -> answered(o)
			:: else
			fi;
			srep[i]!AREF,e,0,0
		:: ps[o] == FDONE && !gone[2 * l2 + HOST(o)] && !starved[QP(o)] ->
#ifdef B_CROSS_ATTACH
			who = ROLE(i);
#endif
			newqp(o, e, l2);
			qs[o] = RTS;
			ps[o] = RUN;
			printf("%d: attached, ep %d lane %d\n", o, e, l2);
			srep[i]!AREP,e,0,0
		:: ps[o] == FDONE && (gone[2 * l2 + HOST(o)] || starved[QP(o)]) ->
			printf("%d: no lane QP for ep %d\n", o, e);
			starved[QP(o)] = 0;
#ifdef B_NOLANE_IS_ERROR
			srep[i]!AREF,e,0,0
#else
#ifndef B_NOLANE_FORGOTTEN
			no[o] = e;
#endif
			srep[i]!NOLANE,e,0,0
#endif
		:: else
		fi
	fi
}

inline rx_detach(i, o)
{
	assert(e == ep[o]);
	if
	:: qs[o] == RTS ->
		fail(o);
		q = 1
	:: qs[o] == QUIET ->
#ifndef B_DETACH_FIRST
		if
		:: ps[o] == FAIL || ps[o] == FWAIT ->
			answered(o);
			classify(o, v)
		:: else
		fi;
#endif
		if
		:: ps[o] != DEAD ->
			unexecuted(o);
			kill(o, 1)
		:: else
		fi;
		told[o] = 1;
		if
		:: wreq[o] == FENCE -> answered(o)
		:: else
		fi;
		srep[i]!AREF,e,0,0
	fi
}

/* The new instance knows no such QP. */
inline rx_stranger(i)
{
#ifdef B_NO_INSTANCE
	if
	:: t == FENCE -> srep[i]!FREP,e,0,0
	:: t == ATTACH ->
		ep[1] = e - 1;
		fz[1] = 0;
		cp[1] = NP(1);
		bs[1] = NP(1);
		bn[1] = NP(1) + 1;
		dl[1] = 0;
		gs[1] = 0;
		newqp(1, e, l2);
		qs[1] = RTS;
		ps[1] = RUN;
		srep[i]!AREP,e,0,0
	:: else -> srep[i]!GONE,e,0,0
	fi
#else
	srep[i]!GONE,e,0,0
#endif
}

inline a_rxreq(i)
{
	(len(sreq[i]) > 0 && len(srep[i]) < 2 && qs[OTHER(i)] != ERR NOCARRY_WAIT(i, OTHER(i)));
	sreq[i]?<t,e,v,l2>;	/* look; it stays when the answer has to wait (q) */
	q = 0;
	if
	:: inst && HOST(OTHER(i)) == 1 -> rx_stranger(i)
	:: !(inst && HOST(OTHER(i)) == 1) ->
		if
		:: t == FENCE -> rx_fence(i, OTHER(i))
		:: t == MOVE -> rx_move(i, OTHER(i))
		:: t == ATTACH -> rx_attach(i, OTHER(i))
		:: t == DETACH -> rx_detach(i, OTHER(i))
		fi
	fi;
	if
	:: q == 0 -> sreq[i]?t,e,v,l2
	:: else
	fi
}

/* A reply comes back to i. */
inline reply(i)
{
	if
	:: t == FREP && ps[i] == FWAIT && EPREP(e, ep[i]) ->
		answered(i);
		classify(i, v)
	:: t == FREP && ps[i] == DEAD && e == ep[i] && wreq[i] == FENCE ->
		answered(i);
		told[i] = 1
	:: t == FREP && ps[i] == PLAN && e == ep[i] ->	/* the peer is quiet: FENCE asks it again */
		answered(i);
		planned[QP(i)] = 1;
		fail(i)
	:: t == BUSY && ps[i] == PLAN && e == ep[i] ->
		answered(i);
		ps[i] = RUN;
		printf("%d: peer busy, no move\n", i)
#ifdef B_LEADER_EARLY
	:: t == AREP && ps[i] <= FAIL && e == ep[i] && wreq[i] == ATTACH -> answered(i)
#endif
	:: t == AREP && ps[i] == ATT && e == ep[i] ->
		answered(i);
		if
		:: qs[i] == INIT ->
			qs[i] = RTS;
			ps[i] = RUN;
			printf("%d: attach done, ep %d\n", i, e)
		:: else -> ps[i] = FAIL		/* the lane was removed meanwhile */
		fi
	:: t == AREP && ps[i] == DEAD && e == ep[i] && wreq[i] == ATTACH ->
		answered(i);
#ifdef B_TO_RESUME
		qs[i] = RTS;
		ps[i] = RUN
#endif
	:: t == NOLANE && e == ep[i] && wreq[i] == ATTACH ->	/* back to the epoch before */
		answered(i);
		ep[i] = oldep[i];
		fz[i] = oldfz[i];
		qs[i] = QUIET;
		if
		:: ps[i] == ATT -> ps[i] = FDONE
		:: else		/* DEAD */
		fi
	:: t == AREF && ps[i] == ATT ->
		answered(i);
#ifndef B_NOLANE_IS_ERROR
		unexecuted(i);
#endif
		kill(i, 1);
		wreq[i] = NONE
	:: t == AREF && ps[i] == DEAD ->
		answered(i);
		wreq[i] = NONE
	:: t == GONE && ps[i] != DEAD && qs[i] == RTS ->
		answered(i);
		fail(i)
	:: t == GONE && ps[i] != DEAD && qs[i] != RTS ->
		answered(i);
		if
		:: !inst -> unexecuted(i)
		:: else
		fi;
		kill(i, 0);
		wreq[i] = NONE
	:: t == GONE && ps[i] == DEAD ->
		answered(i);
		wreq[i] = NONE
	:: else -> printf("%d: drops reply %d ep %d\n", i, t, e)
	fi
}

inline a_rxrep(i)
{
	(len(srep[i]) > 0 && qs[i] != ERR);
	srep[i]?t,e,v,l2;
	reply(i)
}

#ifdef B_NO_QPN
inline a_mixup(i)	/* the other QP of this host takes the answer */
{
	(len(srep[3 - (i)]) > 0 && ps[i] == FWAIT && srep[3 - (i)]?[FREP,e,v,l2]);
	srep[3 - (i)]?t,e,v,l2;
	reply(i)
}
#endif

/* ---- failback: the leader has nothing outstanding and lane 0 is good again ---- */

#define IDLE(i) (ps[i] == RUN && qs[i] == RTS && una[i] == nxt[i] && sc[i] == una[i])
inline a_failback(i)
{
#ifdef B_FAILBACK_LOCAL
	(nfb < NFB && IDLE(i) && pl[i] == 1 && LIVE(0) && wreq[i] == 0 && len(sreq[i]) < 2 &&
	 ps[1] == RUN && qs[1] == RTS && bz[1] == 0 && rcq[1] == 0);
#else
	(nfb < NFB && IDLE(i) && pl[i] == 1 && USABLE(0) && wreq[i] == 0 && len(sreq[i]) < 2);
#endif
	nfb++;
	printf("%d: asks to move back\n", i);
#ifdef B_FAILBACK_LOCAL
	/* Idleness is judged here alone, and the lane QP changes without a fence. */
	fz[0] = REL(rq[0]);
	top[0] = ep[0] + 1;
	newqp(0, top[0], 0);
	qs[0] = INIT;
	ps[0] = ATT;
	qs[1] = QUIET;
	fz[1] = REL(rq[1]);
	ps[1] = FDONE;
	bs[1] = cp[1];
	bn[1] = cp[1] + 1;
	ask(0, ATTACH)
#elif defined(B_FAILBACK_FENCE)
	planned[QP(i)] = 1;	/* a fence like any other; the peer is not asked */
	fail(i)
#else
	ps[i] = PLAN;
	ask(i, MOVE)
#endif
}

inline a_crash()
{
	(ncrash < NCRASH && !inst);
	ncrash++;
	inst = 1;
	excuse[0] = 1;
	printf("*** host 1 restarts without state\n");
	qs[1] = INIT;
	ps[1] = DEAD;
	cp[1] = NP(1);
	sc[1] = 0;
	una[1] = 0;
	nxt[1] = 0;
	bz[1] = 0;
	rcq[1] = 0;
	wreq[1] = NONE;
	lost[1] = 0;
	qid[1] = 99;
	do
	:: len(sreq[0]) > 0 -> sreq[0]?t,e,v,l2
	:: len(srep[0]) > 0 -> srep[0]?t,e,v,l2
	:: len(sreq[1]) > 0 -> sreq[1]?t,e,v,l2
	:: len(srep[1]) > 0 -> srep[1]?t,e,v,l2
	:: else -> break
	od;
	if
	:: wreq[0] != 0 && wreq[0] != NONE -> lost[0] = 1
	:: else
	fi
}

#ifdef W_FAILBACK
#define WITNESS (nfb == 1 && pl[0] == 0 && pl[1] == 0 && ep[0] == 2 && gs[0] > 0 && una[0] > 0)
#elif defined(W_ATOMIC)
#define WITNESS (excuse[0])
#elif defined(W_TWICE)
#define WITNESS (ep[0] == 2 && ep[1] == 2 && ps[0] == RUN && ps[1] == RUN && una[0] > 0)
#elif defined(W_READ)		/* a READ ran again, and what was executed behind it did not */
#define WITNESS (ep[0] == 1 && ps[0] == RUN && bn[0] == bs[0] + 2 && gs[1] == 1)
#elif defined(W_REMOVE)		/* both devices of the lane in use went, and all went on */
#define WITNESS (nrem == 2 && gone[0] && gone[1] && ep[0] == 1 && ps[0] == RUN && una[0] > 0)
#elif defined(W_NOLANE)		/* an epoch was skipped */
#define WITNESS (no[1] == 1 && ep[0] == 2 && ps[0] == RUN && ps[1] == RUN && una[0] > 0)
#elif defined(W_TIMEOUT_KNOWN)	/* executed, no ack, and yet a success in spite of the timeout */
#define WITNESS (sealed[0] && nto > 0 && cp[0] == NP0 && ex[0] == 1 && una[0] == 0)
#elif defined(W_TIMEOUT_LATE)	/* executed after its error was reported, as RC allows */
#define WITNESS (!sealed[0] && nto == 1 && ps[0] == DEAD && ex[0] == 1)
#elif defined(W_WRAP)
#define WITNESS (ep[0] == 1 && bs[0] == 5 && ps[0] == RUN)
#elif defined(W_TWO)		/* one death, both QPs on the other lane */
#define WITNESS (ep[0] == 1 && ep[2] == 1 && una[0] > 0 && una[2] > 0)
#else
#define WITNESS (0)
#endif

#define STEP(action) \
	d_step { action; t = 0; e = 0; v = 0; l2 = 0; k = 0; q = 0; x = 0; y = 0; n = 0 }
#define BOTH(a) :: STEP(a(0)) :: STEP(a(1))
#if NQ > 1
#define ENDS(a) BOTH(a) :: STEP(a(2)) :: STEP(a(3))
#define LEADERS(a) :: STEP(a(0)) :: STEP(a(2))
#define LEADERS2(a, x) :: STEP(a(0, x)) :: STEP(a(2, x))
#define LANE(a, l) \
	:: STEP(a(l, 0)) :: STEP(a(l, 1)) :: STEP(a(l, 2)) :: STEP(a(l, 3))
#define ALL_DONE (DONE(0) && DONE(1) && DONE(2) && DONE(3))
#else
#define ENDS(a) BOTH(a)
#define LEADERS(a) :: STEP(a(0))
#define LEADERS2(a, x) :: STEP(a(0, x))
#define LANE(a, l) :: STEP(a(l, 0)) :: STEP(a(l, 1))
#define ALL_DONE (DONE(0) && DONE(1))
#endif
#define DIE(l) \
	:: STEP(a_die(l, 0, 0)) :: STEP(a_die(l, 0, 1)) \
	:: STEP(a_die(l, 1, 0)) :: STEP(a_die(l, 1, 1)) \
	:: STEP(a_die(l, 2, 0)) :: STEP(a_die(l, 2, 1))
#define ALL2(a) \
	:: STEP(a(0, 0)) :: STEP(a(0, 1)) :: STEP(a(1, 0)) :: STEP(a(1, 1))

active proctype sys()
{
	d_step {
		x = 0;
		do
		:: x < NI ->
			qs[x] = RTS;
			rn[x] = NR(x);
			bn[x] = 1;
			x++
		:: else -> break
		od
	};
	do
	ENDS(a_send)
	LANE(a_rx, 0)
	LANE(a_rx, 1)
	ENDS(a_fin)
	LANE(a_ack, 0)
	LANE(a_ack, 1)
#if READS
	LANE(a_data, 0)
	LANE(a_data, 1)
#endif
	ENDS(a_scqe)
	ENDS(a_rcqe)
	ENDS(a_retx)
#if NRTX
	ENDS(a_retx_early)
#endif
	DIE(0)
	DIE(1)
#if NRET
	BOTH(a_ret)
#endif
#if NBRK
	ALL2(a_brk)
#endif
#if NREM
	ALL2(a_remove)
#endif
#if NBUSY
	LEADERS(a_starve)
#endif
#if NSWAP
	ENDS(a_swap)
#endif
	ENDS(a_detect)
#if NSPUR
	ENDS(a_spur)
#endif
	ENDS(a_quiet)
	ENDS(a_fence)
	ENDS(a_retry)
	LEADERS2(a_attach, 0)
	LEADERS2(a_attach, 1)
	LEADERS(a_detach)
	ENDS(a_rxreq)
	ENDS(a_rxrep)
#if TIMEOUT
	ENDS(a_timeout)
#endif
#if NDES
	ENDS(a_destroy)
#endif
#ifdef B_RESUME
	ENDS(a_resume)
#endif
#if NFB
	LEADERS(a_failback)
#endif
#if NCRASH
	:: STEP(a_crash())
#endif
#ifdef B_CROSS_ATTACH
	:: STEP(a_attach(1, 0))
	:: STEP(a_attach(1, 1))
#endif
#ifdef B_ATTACH_ABANDON
	BOTH(a_abandon)
#endif
#ifdef B_LATE_RECV
	BOTH(a_postrecv)
#endif
#ifdef B_NO_QPN
	ENDS(a_mixup)
#endif
	:: ALL_DONE ->
		assert(!WITNESS);
		break
#if !TIMEOUT
	:: NOPATH -> break	/* they would wait for ever */
#endif
	od
}
