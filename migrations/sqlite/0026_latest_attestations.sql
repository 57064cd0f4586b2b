-- Add type and trail to the rows that the trigger of 0011 maintains. On PostgreSQL, its function does.
CREATE TRIGGER latest_attestations_inserted AFTER INSERT ON latest_attestations BEGIN
    UPDATE latest_attestations
    SET kind = (SELECT a.kind FROM attestations a WHERE a.id = NEW.attestation),
        trail = (SELECT a.trail FROM attestations a WHERE a.id = NEW.attestation)
    WHERE organization = NEW.organization AND fingerprint = NEW.fingerprint AND flow = NEW.flow AND name = NEW.name;
END;
CREATE TRIGGER latest_attestations_updated AFTER UPDATE OF attestation ON latest_attestations BEGIN
    UPDATE latest_attestations
    SET kind = (SELECT a.kind FROM attestations a WHERE a.id = NEW.attestation),
        trail = (SELECT a.trail FROM attestations a WHERE a.id = NEW.attestation)
    WHERE organization = NEW.organization AND fingerprint = NEW.fingerprint AND flow = NEW.flow AND name = NEW.name;
END;
