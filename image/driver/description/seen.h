/* The registry keys that families.toml names, with the values that the header nvrm_registry.h of every version from 580 on in
   seen.toml gives them. For modules whose resource manager is prebuilt: they come without that header. Names of macros are ours. */
#define PEERS "ForceP2P"
#define PEERS_READ 1:0
#define PEERS_READ_ENABLE 1
#define PEERS_WRITE 5:4
#define PEERS_WRITE_ENABLE 1
#define WAY "RMPcieP2PType"
#define WAY_BAR1 1
#define MAP "RMForceStaticBar1"
#define MAP_ENABLE 1
